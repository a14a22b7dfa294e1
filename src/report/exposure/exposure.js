"use strict";
// From a number to its sessions, and from a session to its events. Rows are made on demand; text is only ever set as text.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const make = (name, className, text) => {
    const element = document.createElement(name);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = visible(text);
    return element;
  };
  // Control characters and direction overrides could hide or reorder what a reader sees.
  const visible = (text) => String(text).replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u2028\u2029\u0085]/g, "\u2424").replace(/[\u007f-\u009f]/g, "\ufffd")
    .replace(/[\u202a-\u202e\u2066-\u2069]/g, (c) => "<U+" + c.charCodeAt(0).toString(16).toUpperCase() + ">");
  const percent = (share) => share === null || share === undefined ? "n/a" : (100 * share).toFixed(1) + "%";
  const STEP = 50;
  const state = { find: "", condition: "*", show: "*", order: "id", count: STEP, open: null, channel: "*" };

  const channels = [...new Set(data.sessions.flatMap((s) => Object.keys(s.coverage)))].sort();
  const internal = [...new Set(data.sessions.flatMap((s) => Object.keys(s.internal)))].sort();
  const options = (select, entries) => {
    for (const [value, text] of entries) {
      const option = make("option", "", text);
      option.value = value;
      select.append(option);
    }
  };
  options(by("condition"), [["*", "all"], ...data.conditions.map((c) => [c, c])]);
  options(by("show"), [["*", "all sessions"], ["exposed", "exposed anywhere"], ...channels.map((c) => ["on " + c, "exposed on " + c]),
    ...internal.map((c) => ["on " + c, "internal on " + c]), ["lost", "OLF above 0"], ["gaps", "with gaps"]]);
  options(by("order"), [["id", "by id"], ["ecr", "most exposed first"], ["olf", "most outlet loss first"]]);

  const passes = (s) => {
    if (state.condition !== "*" && s.condition !== state.condition) return false;
    if (state.find && !s.id.toLowerCase().includes(state.find.toLowerCase())) return false;
    if (state.show === "exposed") return s.exposed > 0;
    if (state.show === "lost") return s.olf > 0;
    if (state.show === "gaps") return s.unscored > 0;
    if (state.show.startsWith("on ")) {
      const channel = state.show.slice(3);
      return (s.coverage[channel] || s.internal[channel] || 0) > 0;
    }
    return true;
  };
  const listed = () => {
    const rows = data.sessions.filter(passes);
    if (state.order === "ecr") rows.sort((a, b) => b.ecr - a.ecr || (a.id < b.id ? -1 : 1));
    if (state.order === "olf") rows.sort((a, b) => (b.olf ?? -1) - (a.olf ?? -1) || (a.id < b.id ? -1 : 1));
    return rows;
  };

  const cell = (row, name, text) => row.append(make(name, "", text));
  const drawList = () => {
    const rows = listed();
    const table = make("table");
    const head = table.createTHead().insertRow();
    for (const name of ["Session", "Condition", "Exposed", "ECR", ...channels, "OLF", "Gaps"]) {
      const th = make("th", name === "Session" || name === "Condition" ? "words" : "", name);
      th.scope = "col";
      head.append(th);
    }
    const body = table.createTBody();
    for (const s of rows.slice(0, state.count)) {
      const row = body.insertRow();
      if (s.id === state.open) row.setAttribute("aria-current", "true");
      const first = make("th", "words");
      first.scope = "row";
      const button = make("button", "number", s.id);
      button.type = "button";
      button.dataset.session = s.id;
      first.append(button);
      row.append(first);
      row.append(make("td", "words", s.condition));
      cell(row, "td", s.exposed + " of " + s.targets);
      cell(row, "td", percent(s.ecr));
      for (const channel of channels) cell(row, "td", channel in s.coverage ? percent(s.coverage[channel]) : "n/a");
      cell(row, "td", percent(s.olf));
      cell(row, "td", s.unscored || "");
    }
    by("list").replaceChildren(table);
    by("count").textContent = rows.length + " of " + data.sessions.length + " sessions, " + Math.min(state.count, rows.length) + " shown";
    by("more").hidden = rows.length <= state.count;
  };

  const kindOf = (hit) => !["exact", "normalized"].includes(hit.tier) ? "weaker" : hit.authorized === null ? "inside" : hit.authorized ? "authorised" : "exposes";
  const sayHit = (hit) => hit.target_id + (hit.alias ? " as \u201c" + hit.alias + "\u201d" : "") + ": " + hit.tier + (hit.negated ? ", negated" : "") +
    (hit.authorized === null ? ", internal" : hit.authorized ? ", authorised" : ", unauthorised") + (hit.counted ? ", counted" : "");
  const drawEvent = (event) => {
    const inside = event.visibility === "internal";
    const exposing = event.hits.some((hit) => hit.counted);
    const element = make("article", "event " + (inside ? "internal" : "visible") + (exposing ? " exposing" : ""));
    if (state.channel !== "*" && event.channel !== state.channel) element.classList.add("faded");
    const parts = ["request " + event.request];
    if (event.index !== null) parts.push("event " + event.index);
    if (event.timestamp) parts.push(event.timestamp);
    parts.push(event.channel + " (" + event.visibility + ")");
    if (event.tool) parts.push("tool " + event.tool);
    if (event.schema_group) parts.push("schema " + event.schema_group);
    if (event.recipients.length) parts.push("to " + event.recipients.join(", "));
    if (event.status !== "ok") parts.push(event.status + ": not scored");
    element.append(make("header", "", parts.join(" \u00b7 ")));
    const said = make("div", "said");
    said.dir = "auto";
    for (const piece of event.pieces) {
      if (piece.cut) {
        said.append(make("span", "cut", " \u2026 " + piece.cut + " bytes \u2026 "));
      } else if (piece.hits.length) {
        const hits = piece.hits.map((place) => event.hits[place]);
        const order = ["exposes", "authorised", "inside", "weaker"];
        const mark = make("mark", order.find((kind) => hits.some((hit) => kindOf(hit) === kind)), piece.text);
        mark.title = hits.map(sayHit).map(visible).join("; ");
        said.append(mark);
      } else {
        said.append(document.createTextNode(visible(piece.text)));
      }
    }
    element.append(said);
    if (event.hits.length) {
      const list = make("ul", "hits");
      for (const hit of event.hits) list.append(make("li", "", sayHit(hit)));
      element.append(list);
    }
    return element;
  };

  const EVENTS = 200;
  const open = (id, focus) => {
    state.open = id;
    const detail = by("detail");
    const session = data.sessions.find((s) => s.id === id);
    const events = data.events[id];
    const children = [make("h3", "", id)];
    if (session) {
      const figures = ["condition " + session.condition, "exposed " + session.exposed + " of " + session.targets, "OLF " + percent(session.olf)];
      for (const [channel, share] of Object.entries(session.coverage)) figures.push(channel + " " + percent(share));
      for (const [channel, share] of Object.entries(session.internal)) figures.push(channel + " (internal) " + percent(share));
      if (session.unscored) figures.push(session.unscored + " not scored");
      children.push(make("p", "muted", figures.join(" \u00b7 ")));
    }
    if (!events) {
      children.push(make("p", "note", "Its events are not on this page; matches.jsonl has its matches."));
    } else {
      const lanes = make("div", "lanes");
      lanes.append(make("h4", "", "Visible exits"), make("h4", "", "Internal, evaluator only"));
      let row = 2;
      const add = (from) => {
        for (const event of events.slice(from, from + EVENTS)) {
          const element = drawEvent(event);
          element.style.gridRow = row++;
          lanes.append(element);
        }
        if (events.length > from + EVENTS) {
          const more = make("button", "number", "Show more of " + events.length + " events");
          more.type = "button";
          more.style.gridRow = row;
          more.addEventListener("click", () => { more.remove(); add(from + EVENTS); });
          lanes.append(more);
        }
      };
      add(0);
      children.push(lanes);
    }
    detail.replaceChildren(...children);
    drawList();
    if (focus) { detail.focus({ preventScroll: true }); detail.scrollIntoView({ block: "start" }); }
  };

  const sync = () => { for (const id of ["find", "condition", "show", "order"]) by(id).value = state[id]; };
  document.addEventListener("click", (event) => {
    const target = event.target.closest("[data-session], [data-channel]");
    if (!target) return;
    if (target.dataset.session !== undefined) { open(target.dataset.session, true); return; }
    state.condition = target.dataset.condition;
    state.channel = target.dataset.channel;
    state.show = state.channel === "*" ? "exposed" : "on " + state.channel;
    state.find = "";
    state.count = STEP;
    sync();
    drawList();
    by("sessions").scrollIntoView({ block: "start" });
    const first = by("list").querySelector("button");
    if (first) first.focus({ preventScroll: true });
  });
  for (const id of ["find", "condition", "show", "order"]) {
    by(id).addEventListener("input", () => { state[id] = by(id).value; state.count = STEP; if (id === "show") state.channel = state.show.startsWith("on ") ? state.show.slice(3) : "*"; drawList(); });
  }
  by("more").addEventListener("click", () => { state.count += STEP; drawList(); });
  sync();
  drawList();
})();
