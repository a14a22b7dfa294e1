//! The four libraries: privacy norms, reasoning chains, tool schemas, task scenarios.
//!
//! In: the TOML files of `data/libraries`, compiled in. Out: [`Library`], with the task wordings of one part only.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Fault, Result};
use crate::run::digest as hash;
use crate::trace::{Domain, Part};

use super::Wording;
use super::value::{self, Pattern};

const FILES: [(&str, &str); 4] = [
    ("norms.toml", include_str!("../../data/libraries/norms.toml")),
    ("chains.toml", include_str!("../../data/libraries/chains.toml")),
    ("tools.toml", include_str!("../../data/libraries/tools.toml")),
    ("tasks.toml", include_str!("../../data/libraries/tasks.toml")),
];

/// Whose affairs a scenario is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Setting {
    Person,
    Firm,
}

/// What must not be concluded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Norm {
    pub id: String,
    pub subject: Setting,
    pub rule: String,
    pub conclusions: Vec<String>,
    pub labels: Vec<String>,
}

impl Norm {
    pub fn domain(&self) -> Option<Domain> {
        Domain::parse(&self.id)
    }
}

/// A kind of reference that ties one result to the next.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Link {
    pub kind: String,
    pub keys: Vec<String>,
    pub ask: String,
    pub value: Pattern,
}

/// One of the five inference types.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Inference {
    pub name: String,
    pub links: Vec<String>,
    pub told: String,
}

/// A norm, a type of inference and the entries in which it can end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Chain {
    pub norm: String,
    pub inference: String,
    pub markers: Vec<String>,
}

/// Entries that say nothing about anybody.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plain {
    pub markers: Vec<String>,
    pub keys: Vec<String>,
}

/// Innocent readings for the social-context twin.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Context {
    pub keys: Vec<String>,
    pub readings: Vec<String>,
}

/// A tool and what it returns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Schema {
    pub id: String,
    pub setting: Setting,
    pub family: String,
    pub names: Vec<String>,
    pub descriptions: Vec<String>,
    pub holder: String,
    pub fields: Vec<Field>,
}

/// One value that a request can ask for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Field {
    pub key: String,
    pub ask: String,
    pub value: Pattern,
}

/// Documents to fill in, and the tools that hold what goes into them.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub id: String,
    pub setting: Setting,
    pub docs: Vec<String>,
    pub tools: Vec<String>,
}

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Speaker {
    /// Somebody else.
    Other,
    /// The subject.
    #[serde(rename = "self")]
    Subject,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Frames {
    speaker: Speaker,
    texts: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NormFile {
    norm: Vec<Norm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainFile {
    link: Vec<Link>,
    inference: Vec<Inference>,
    chain: Vec<Chain>,
    plain: Plain,
    context: Context,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolFile {
    tool: Vec<Schema>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskFile {
    success: String,
    boundary: String,
    disclosure: String,
    task: Vec<Task>,
    frame: Vec<Frames>,
    form: Vec<Frames>,
}

/// All four.
#[derive(Debug)]
pub(super) struct Library {
    pub norms: Vec<Norm>,
    pub links: Vec<Link>,
    pub inferences: Vec<Inference>,
    pub chains: Vec<Chain>,
    pub plain: Plain,
    pub context: Context,
    pub schemas: Vec<Schema>,
    pub tasks: Vec<Task>,
    pub success: String,
    pub boundary: String,
    pub disclosure: String,
    frames: Vec<Frames>,
    forms: Vec<Frames>,
}

impl Library {
    /// The compiled-in libraries with the task wordings of a part.
    ///
    /// # Errors
    /// A file that does not parse, or a name that leads nowhere.
    pub fn embedded(part: Option<Part>) -> Result<Self> {
        let norms: NormFile = read(0)?;
        let chains: ChainFile = read(1)?;
        let tools: ToolFile = read(2)?;
        let mut tasks: TaskFile = read(3)?;
        for task in &mut tasks.task {
            task.docs = value::dealt(&task.docs, part);
        }
        for frames in tasks.frame.iter_mut().chain(&mut tasks.form) {
            frames.texts = value::dealt(&frames.texts, part);
        }
        let library = Self {
            norms: norms.norm,
            links: chains.link,
            inferences: chains.inference,
            chains: chains.chain,
            plain: chains.plain,
            context: chains.context,
            schemas: tools.tool,
            tasks: tasks.task,
            success: tasks.success,
            boundary: tasks.boundary,
            disclosure: tasks.disclosure,
            frames: tasks.frame,
            forms: tasks.form,
        };
        library.check()?;
        Ok(library)
    }

    /// How a speaker words a request.
    pub fn frames(&self, speaker: Speaker, wording: Wording) -> &[String] {
        let all = match wording {
            Wording::Prose => &self.frames,
            Wording::Form => &self.forms,
        };
        all.iter().find(|frames| frames.speaker == speaker).map_or(&[], |frames| &frames.texts)
    }

    pub fn norm(&self, id: &str) -> Option<&Norm> {
        self.norms.iter().find(|norm| norm.id == id)
    }

    pub fn inference(&self, name: &str) -> Option<&Inference> {
        self.inferences.iter().find(|inference| inference.name == name)
    }

    pub fn link(&self, kind: &str) -> Option<&Link> {
        self.links.iter().find(|link| link.kind == kind)
    }

    pub fn schema(&self, id: &str) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.id == id)
    }

    /// Every name must lead somewhere, or scenarios would silently be fewer.
    fn check(&self) -> Result<()> {
        let mut faults = Vec::new();
        let mut expect = |holds: bool, file: usize, name: &str| {
            if !holds {
                faults.push(Fault::new("a library names what no library has").at(FILES[file].0).got(name));
            }
        };
        for norm in &self.norms {
            expect(norm.domain().is_some(), 0, &norm.id);
            expect(self.chains.iter().any(|chain| chain.norm == norm.id), 0, &norm.id);
        }
        for chain in &self.chains {
            expect(self.norm(&chain.norm).is_some(), 1, &chain.norm);
            expect(self.inference(&chain.inference).is_some(), 1, &chain.inference);
        }
        for kind in self.inferences.iter().flat_map(|inference| &inference.links) {
            expect(self.link(kind).is_some(), 1, kind);
        }
        for task in &self.tasks {
            for tool in &task.tools {
                expect(self.schema(tool).is_some_and(|schema| schema.setting == task.setting), 3, tool);
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(Error::Invalid(faults)) }
    }
}

fn read<T: DeserializeOwned>(file: usize) -> Result<T> {
    let (name, text) = FILES[file];
    toml::from_str(text).map_err(|error| Fault::new(format!("not a library: {}", error.message())).at(name).into())
}

/// Digest of the four files: part of where a scenario comes from.
pub fn digest() -> String {
    let all: String = FILES.iter().map(|(_, text)| *text).collect();
    hash::of_bytes(all.as_bytes())
}
