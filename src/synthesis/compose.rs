//! One scenario, composed backwards: conclusion, chain, references, tools, noise, request.
//!
//! In: the libraries, a domain, a difficulty and a generator. Out: [`Scenario`]. The first tool names the subject and the first
//! reference, each further one ties a reference to the next, and the last lists two entries of which only the last reference
//! tells which one is the subject's: without any one of the tools the line from subject to marker is broken.

use std::collections::BTreeSet;

use rand::RngExt as _;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value, json};

use crate::trace::{Difficulty, Domain};

use super::Wording;
use super::library::{Chain, Inference, Library, Link, Norm, Schema, Setting, Speaker, Task};
use super::value::Values;

/// Tools on offer at most, noise included.
const MOST_TOOLS: usize = 6;
/// Noise tools at most.
const MOST_NOISE: usize = 2;
/// Supporting tools up to which one more value may be asked for, so that requests stay short.
const FEW_TOOLS: usize = 3;
/// How often the subject asks in person.
const IN_PERSON: f64 = 0.4;

/// What scenarios are composed of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Composer<'a> {
    pub library: &'a Library,
    pub values: &'a Values,
    pub wording: Wording,
}

/// A reference that two neighbouring tools of the chain share.
#[derive(Debug, Clone)]
pub(super) struct Hop {
    pub key: String,
    pub ask: String,
    pub value: String,
    /// The request asks for it.
    pub asked: bool,
}

/// A value that the request asks for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub pointer: String,
    pub ask: String,
}

/// A tool with its result.
#[derive(Debug, Clone)]
pub(super) struct Placed<'a> {
    pub schema: &'a Schema,
    pub name: &'a str,
    pub description: String,
    pub parameters: Vec<String>,
    pub result: Map<String, Value>,
    pub asked: Vec<Asked>,
    /// Pointer of the step of the chain that it alone holds.
    pub clue: Option<String>,
    /// Position in the chain; absent for noise.
    pub position: Option<usize>,
}

/// A scenario before it is written out.
#[derive(Debug, Clone)]
pub(super) struct Scenario<'a> {
    pub domain: Domain,
    pub difficulty: Difficulty,
    pub norm: &'a Norm,
    pub chain: &'a Chain,
    pub inference: &'a Inference,
    pub task: &'a Task,
    pub doc: &'a str,
    pub frame: &'a str,
    pub speaker: Speaker,
    pub wording: Wording,
    /// The subject's name.
    pub subject: String,
    /// The conclusion without full stop.
    pub conclusion: String,
    pub hops: Vec<Hop>,
    pub marker: &'a str,
    pub entry: Entry,
    /// In the order in which they are offered.
    pub tools: Vec<Placed<'a>>,
}

/// The choices that the tools' results depend on.
struct Outline<'a> {
    subject: &'a str,
    hops: &'a [Hop],
    links: &'a [&'a Link],
    marker: &'a str,
    entry: Entry,
}

/// Whether the request asks for the entry that ends the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// It does not: the entry is private.
    Private,
    /// It does: the right answer discloses it, and still draws no conclusion.
    Asked,
}

impl<'a> Composer<'a> {
    /// Composes one scenario; `None` if a draw does not fit together.
    pub fn compose(
        &self,
        domain: Domain,
        difficulty: Difficulty,
        entry: Entry,
        rng: &mut ChaCha8Rng,
    ) -> Option<Scenario<'a>> {
        let library = self.library;
        let norms: Vec<&Norm> = library.norms.iter().filter(|norm| norm.domain() == Some(domain)).collect();
        let norm = *norms.choose(rng)?;
        let chains: Vec<&Chain> = library.chains.iter().filter(|chain| chain.norm == norm.id).collect();
        let chain = *chains.choose(rng)?;
        let inference = library.inference(&chain.inference)?;
        let tasks: Vec<&Task> = library.tasks.iter().filter(|task| task.setting == norm.subject).collect();
        let task = *tasks.choose(rng)?;
        let in_person = norm.subject == Setting::Person && rng.random_bool(IN_PERSON);
        let speaker = if in_person { Speaker::Subject } else { Speaker::Other };
        let subject = match norm.subject {
            Setting::Person => self.values.draw(&super::value::Pattern::Person, rng),
            Setting::Firm => self.values.firm(rng),
        };
        let named = if in_person { "The user" } else { &subject };
        let conclusion = norm.conclusions.choose(rng)?.replace("{S}", named);
        let size = support_size(difficulty);
        let links = links(inference, library, size - 1)?;
        let hops = self.hops(&links, rng)?;
        let marker = chain.markers.choose(rng)?;
        let outline = Outline { subject: &subject, hops: &hops, links: &links, marker, entry };
        let mut tools = self.tools(task, &outline, rng)?;
        if self.wording == Wording::Form {
            name_fields(&mut tools)?;
        }
        Some(Scenario {
            domain,
            difficulty,
            norm,
            chain,
            inference,
            task,
            doc: task.docs.choose(rng)?,
            frame: library.frames(speaker, self.wording).choose(rng)?,
            speaker,
            wording: self.wording,
            conclusion,
            marker,
            entry,
            tools,
            subject,
            hops,
        })
    }

    /// A reference for each step, with distinct names; one of them is asked for.
    fn hops(&self, links: &[&Link], rng: &mut ChaCha8Rng) -> Option<Vec<Hop>> {
        let asked = rng.random_range(0..links.len());
        let mut hops: Vec<Hop> = Vec::new();
        for (index, link) in links.iter().enumerate() {
            let free: Vec<&String> = link.keys.iter().filter(|key| hops.iter().all(|hop| hop.key != **key)).collect();
            let key = (*free.choose(rng)?).clone();
            let value = self.values.draw(&link.value, rng);
            let ask = link.ask.replace("{}", &key.replace('_', " "));
            hops.push(Hop { key, ask, value, asked: index == asked });
        }
        Some(hops)
    }

    fn tools(&self, task: &'a Task, outline: &Outline<'_>, rng: &mut ChaCha8Rng) -> Option<Vec<Placed<'a>>> {
        let size = outline.hops.len() + 1;
        let mut candidates: Vec<&Schema> = task.tools.iter().filter_map(|id| self.library.schema(id)).collect();
        candidates.shuffle(rng);
        candidates.truncate(size);
        if candidates.len() < size {
            return None;
        }
        let mut tools = Vec::new();
        for (position, schema) in candidates.iter().enumerate() {
            tools.push(self.supporting(schema, position, outline, rng)?);
        }
        let room = MOST_NOISE.min(MOST_TOOLS - size);
        let mut others: Vec<&Schema> = self
            .library
            .schemas
            .iter()
            .filter(|schema| schema.setting == task.setting && candidates.iter().all(|used| used.id != schema.id))
            .collect();
        others.shuffle(rng);
        for schema in others.into_iter().take(rng.random_range(0..=room)) {
            tools.push(self.noise(schema, rng)?);
        }
        tools.shuffle(rng);
        Some(tools)
    }

    fn supporting(
        &self,
        schema: &'a Schema,
        position: usize,
        outline: &Outline<'_>,
        rng: &mut ChaCha8Rng,
    ) -> Option<Placed<'a>> {
        let before = position.checked_sub(1).and_then(|before| outline.hops.get(before));
        let next = outline.hops.get(position);
        let mut placed = Self::placed(schema, rng)?;
        let mut fields: Vec<(String, Value)> = Vec::new();
        let mut order: Vec<usize> = (0..schema.fields.len()).collect();
        order.shuffle(rng);
        order.truncate(rng.random_range(1..=order.len()));
        // The reference is asked for in the place of a field, in short requests at times beside it.
        let asks_next = next.is_some_and(|hop| hop.asked);
        let asks_field = !asks_next || (outline.hops.len() < FEW_TOOLS && rng.random_bool(0.5));
        for (rank, index) in order.into_iter().enumerate() {
            let field = &schema.fields[index];
            if rank == 0 && asks_field {
                placed.asked.push(Asked { pointer: format!("/{}", field.key), ask: field.ask.clone() });
            }
            fields.push((field.key.clone(), self.values.draw(&field.value, rng).into()));
        }
        match before {
            None => {
                fields.push((schema.holder.clone(), outline.subject.into()));
                placed.parameters.push(schema.holder.clone());
            }
            Some(hop) => {
                placed.parameters.push(hop.key.clone());
                if next.is_some() {
                    fields.push((hop.key.clone(), hop.value.clone().into()));
                }
            }
        }
        if let Some(hop) = next {
            fields.push((hop.key.clone(), hop.value.clone().into()));
            placed.clue = Some(format!("/{}", hop.key));
            if hop.asked {
                placed.description = format!("{} Also keeps the {}.", placed.description, hop.ask);
                placed.asked.push(Asked { pointer: format!("/{}", hop.key), ask: hop.ask.clone() });
            }
        } else {
            let (entries, clue) = self.entries(outline, rng)?;
            fields.push(("entries".to_owned(), entries));
            if let (Entry::Asked, Some(hop), Some((_, key))) = (outline.entry, before, clue.rsplit_once('/')) {
                let ask = format!("{key} noted for the {}", hop.key.replace('_', " "));
                placed.description = format!("{} Also keeps the {ask}.", placed.description);
                placed.asked.push(Asked { pointer: clue.clone(), ask });
            }
            placed.clue = Some(clue);
        }
        fields.shuffle(rng);
        placed.result = fields.into_iter().collect();
        placed.position = Some(position);
        Some(placed)
    }

    /// Two entries, the subject's and another; only the reference tells which is which.
    fn entries(&self, outline: &Outline<'_>, rng: &mut ChaCha8Rng) -> Option<(Value, String)> {
        let (hop, link) = (outline.hops.last()?, outline.links.last()?);
        let keys: Vec<&String> = self.library.plain.keys.iter().filter(|key| **key != hop.key).collect();
        let key = *keys.choose(rng)?;
        let other = loop {
            let other = self.values.draw(&link.value, rng);
            if other != hop.value {
                break other;
            }
        };
        let plain = self.library.plain.markers.choose(rng)?;
        let mut entries = vec![json!({&hop.key: hop.value, key: outline.marker}), json!({&hop.key: other, key: plain})];
        let place = usize::from(rng.random_bool(0.5));
        entries.swap(0, place);
        Some((Value::Array(entries), format!("/entries/{place}/{key}")))
    }

    fn noise(&self, schema: &'a Schema, rng: &mut ChaCha8Rng) -> Option<Placed<'a>> {
        let mut placed = Self::placed(schema, rng)?;
        placed.parameters.push(schema.holder.clone());
        placed.result =
            schema.fields.iter().map(|field| (field.key.clone(), self.values.draw(&field.value, rng).into())).collect();
        Some(placed)
    }

    fn placed(schema: &'a Schema, rng: &mut ChaCha8Rng) -> Option<Placed<'a>> {
        Some(Placed {
            schema,
            name: schema.names.choose(rng)?,
            description: schema.descriptions.choose(rng)?.clone(),
            parameters: Vec::new(),
            result: Map::new(),
            asked: Vec::new(),
            clue: None,
            position: None,
        })
    }
}

/// The fields of a form are called as the records call them; `None` if two are called alike.
fn name_fields(tools: &mut [Placed<'_>]) -> Option<()> {
    let mut names = BTreeSet::new();
    for asked in tools.iter_mut().flat_map(|tool| &mut tool.asked) {
        if let Some(key) = asked.pointer.strip_prefix('/').filter(|key| !key.contains('/')) {
            asked.ask = key.replace('_', " ");
        }
        if !names.insert(asked.ask.clone()) {
            return None;
        }
    }
    Some(())
}

/// The kinds of reference that an inference type follows, in turn.
fn links<'a>(inference: &Inference, library: &'a Library, count: usize) -> Option<Vec<&'a Link>> {
    inference.links.iter().cycle().take(count).map(|kind| library.link(kind)).collect()
}

fn support_size(difficulty: Difficulty) -> usize {
    match difficulty {
        Difficulty::D1 => 2,
        Difficulty::D2 => 3,
        Difficulty::D3 => 4,
        Difficulty::D4 => 5,
    }
}
