"use strict";
// Hides the traces that do not match the search, and opens what is folded before printing. It writes no text of the page but counts.
(() => {
  const list = document.getElementById("traces");
  const form = document.getElementById("find");
  if (list && form) {
    const traces = [...list.children].map((element) => ({
      element,
      answers: [...element.querySelectorAll("[data-system]")].map((card) => [card.dataset.system, card.dataset.class]),
      text: "",
    }));
    const text = document.getElementById("find-text");
    const verdict = document.getElementById("find-class");
    const system = document.getElementById("find-system");
    const open = document.getElementById("find-open");
    const count = document.getElementById("find-count");
    const show = () => {
      const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const trace of traces) {
        if (words.length && !trace.text) trace.text = trace.element.textContent.toLowerCase();
        const judged = trace.answers.some(
          ([name, kind]) => (!system.value || name === system.value) && (!verdict.value || kind === verdict.value),
        );
        const matches = judged && words.every((word) => trace.text.includes(word));
        trace.element.hidden = !matches;
        shown += matches;
      }
      count.textContent = `${shown} of ${traces.length} traces`;
    };
    for (const field of [text, verdict, system]) field.addEventListener("input", show);
    form.addEventListener("submit", (event) => event.preventDefault());
    open.addEventListener("click", () => {
      const opens = open.getAttribute("aria-pressed") !== "true";
      open.setAttribute("aria-pressed", String(opens));
      open.textContent = opens ? "Close all" : "Open all";
      for (const trace of traces) if (!trace.element.hidden) trace.element.open = opens;
    });
    form.hidden = false;
  }
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const element of folded) element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const element of folded) element.open = false;
  });
})();
