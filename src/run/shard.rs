//! One part in N of a command's work, so that any scheduler can spread it, and the way back to the output of one run.
//!
//! In: `I/N`, items in the order of the inputs. Item `k`, counted from 0, belongs to shard `k mod N + 1`, whatever the other shards
//! do. Out: a shard file: a line that says what it is a part of, a line an item, and a line that closes it with a digest of all
//! before. [`Shards`] reads a whole set of them, item by item in the order of the inputs; what only the whole set shows is worked
//! out by whoever reads them.

mod task;

pub use task::Task;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rayon::prelude::*;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::atomic::Pending;
use super::json::describe;
use crate::error::{Error, Fault, Result};

/// Form of the files; another one is refused.
const FORM: u32 = 1;
/// Items, and bytes of them, that are read at once.
const BATCH: usize = 1_024;
const BATCH_BYTES: usize = 16 << 20;
/// How the line that closes a file begins.
const END: &[u8] = b"{\"end\":";

/// One part of so many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// The whole of a work, as one shard.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Whether item `index`, counted from 0, is of this part.
    pub fn takes(self, index: usize) -> bool {
        index % self.of + 1 == self.number
    }

    /// Its items among the first `count`.
    pub fn indices(self, count: usize) -> impl Iterator<Item = usize> {
        (self.number - 1..count).step_by(self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rule = || format!("expected I/N with 1 <= I <= N, e.g. 2/8, got `{text}`");
        let (number, of) = text.split_once('/').ok_or_else(rule)?;
        let (Ok(number), Ok(of)) = (number.parse(), of.parse()) else { return Err(rule()) };
        if (1..=of).contains(&number) { Ok(Self { number, of }) } else { Err(rule()) }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.number, self.of)
    }
}

/// Deals the items of several sources, which are counted through.
#[derive(Debug, Clone)]
pub struct Dealer {
    shard: Shard,
    next: usize,
}

impl Dealer {
    /// Begins with the first item; no shard takes all.
    pub fn new(shard: Option<Shard>) -> Self {
        Self { shard: shard.unwrap_or(Shard::WHOLE), next: 0 }
    }

    /// Whether the next item is of this part.
    pub fn takes_next(&mut self) -> bool {
        self.next += 1;
        self.shard.takes(self.next - 1)
    }
}

#[derive(Serialize, Deserialize)]
struct Head {
    topalign_shard: u32,
    number: usize,
    of: usize,
    task: Task,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line<T> {
    Item(T),
    End(End),
}

#[derive(Debug, Serialize, Deserialize)]
struct End {
    items: usize,
    /// What any shard knows of the whole, and all know alike.
    facts: Value,
    sha256: String,
}

/// What a shard's command tells.
#[derive(Debug, Serialize)]
pub struct Dealt {
    /// `I/N`.
    pub shard: String,
    /// Items in the file.
    pub items: usize,
    /// The file.
    pub out: PathBuf,
}

impl Dealt {
    /// For people.
    pub fn text(&self) -> String {
        format!(
            "shard {}: {} items -> {}; `topalign merge-shards` joins all of them",
            self.shard,
            self.items,
            self.out.display()
        )
    }
}

/// A shard file that is being written; nothing is seen before [`ShardFile::commit`].
pub struct ShardFile {
    file: Pending,
    shard: Shard,
    hasher: Sha256,
    items: usize,
}

impl ShardFile {
    /// Opens the file.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn create(path: &Path, shard: Shard, task: Task) -> Result<Self> {
        let mut file = Self { file: Pending::create(path)?, shard, hasher: Sha256::new(), items: 0 };
        file.lines(&[&Head { topalign_shard: FORM, number: shard.number, of: shard.of, task }])?;
        Ok(file)
    }

    /// Appends this shard's next items, which become text on all threads.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn items<T: Serialize + Sync>(&mut self, items: &[T]) -> Result<()> {
        self.items += items.len();
        self.lines(&items.iter().map(Line::Item).collect::<Vec<_>>())
    }

    fn lines<T: Serialize + Sync>(&mut self, lines: &[T]) -> Result<()> {
        let text = |line: &T| {
            let mut text = serde_json::to_vec(line).map_err(|error| Error::Failed(error.to_string()))?;
            text.push(b'\n');
            Ok(text)
        };
        for line in lines.par_iter().map(text).collect::<Result<Vec<_>>>()? {
            self.hasher.update(&line);
            self.file.write_all(&line).map_err(|source| Error::write(self.file.path(), source))?;
        }
        Ok(())
    }

    /// Closes the file. `facts` are of the whole, so that every shard has the same.
    ///
    /// # Errors
    /// [`Error::Write`] with the path.
    pub fn commit(mut self, facts: &impl Serialize) -> Result<Dealt> {
        let facts = serde_json::to_value(facts).map_err(|error| Error::Failed(error.to_string()))?;
        let end = End { items: self.items, facts, sha256: hex::encode(self.hasher.finalize_reset()) };
        self.file.row(&Line::<()>::End(end))?;
        let out = self.file.path().to_path_buf();
        self.file.commit()?;
        Ok(Dealt { shard: self.shard.to_string(), items: self.items, out })
    }
}

/// A whole set of shard files.
pub struct Shards {
    task: Task,
    parts: Vec<Part>,
}

struct Part {
    path: PathBuf,
    reader: BufReader<File>,
    hasher: Sha256,
    line: usize,
    items: usize,
}

impl Shards {
    /// Opens shards in any order.
    ///
    /// # Errors
    /// Unreadable files; a [`Fault`] for each file that is no shard or not of the same work, each shard that is there twice and
    /// each that is missing.
    pub fn open(paths: &[PathBuf]) -> Result<Self> {
        let mut found: BTreeMap<usize, Part> = BTreeMap::new();
        let mut first: Option<(Head, PathBuf)> = None;
        let mut faults = Vec::new();
        for path in paths {
            let (head, part) = Part::open(path)?;
            if let Some((known, at)) = &first {
                let count = || {
                    let fault = Fault::new("not a shard of the same work: it is one of another number of shards");
                    (known.of != head.of).then(|| fault.got(head.of).expected(format!("`{}`", known.of)))
                };
                if let Some(fault) = known.task.difference(&head.task).or_else(count) {
                    faults.push(fault.at(path.display()).hint(format!("it was compared with {}", at.display())));
                    continue;
                }
            }
            let number = head.number;
            if let Some(other) = found.get(&number) {
                let what = format!("shard {number} of {} is there twice", head.of);
                faults.push(Fault::new(what).at(path.display()).hint(format!("the other is {}", other.path.display())));
                continue;
            }
            first = first.or_else(|| Some((head, path.clone())));
            found.insert(number, part);
        }
        let Some((head, _)) = first else {
            return Err(Fault::new("no shards").expected("all files that the shards of one command wrote").into());
        };
        let missing: Vec<String> =
            (1..=head.of).filter(|number| !found.contains_key(number)).map(|number| number.to_string()).collect();
        if !missing.is_empty() && faults.is_empty() {
            let fault = Fault::new(format!("shards are missing: {} of {}", missing.join(", "), head.of));
            faults.push(fault.hint("give the files of all shards"));
        }
        if faults.is_empty() {
            Ok(Self { task: head.task, parts: found.into_values().collect() })
        } else {
            Err(Error::Invalid(faults))
        }
    }

    /// What they are shards of.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// The files, by shard.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.path.as_path())
    }

    /// Hands all items to `visit` in the order of the inputs, some at a time; returns what every shard knows of the whole. Only
    /// then is it known that all files are whole, so that nothing may be committed before.
    ///
    /// # Errors
    /// A file that was cut or changed, items of another form, or what `visit` returns.
    pub fn each<T: DeserializeOwned + Send>(mut self, mut visit: impl FnMut(Vec<T>) -> Result<()>) -> Result<Value> {
        let of = self.parts.len();
        let mut next = 0;
        let end = loop {
            let (mut lines, mut size, mut end) = (Vec::new(), 0, None);
            while lines.len() < BATCH && size < BATCH_BYTES {
                let part = &mut self.parts[next % of];
                let line = part.next_line()?;
                if line.starts_with(END) {
                    end = Some(part.close(&line)?);
                    break;
                }
                size += line.len();
                lines.push((next % of, part.line, line));
                next += 1;
            }
            visit(self.parse(lines)?)?;
            if let Some(end) = end {
                break end;
            }
        };
        // Dealt in turn, the shard after the last item is the first to end; all others then end as well.
        for place in (next + 1..next + of).map(|place| place % of) {
            let line = self.parts[place].next_line()?;
            let (part, last) = (&self.parts[place].path, &self.parts[next % of].path);
            if !line.starts_with(END) {
                let fault = Fault::new("the shard has more items than the others").at(part.display());
                return Err(fault.hint(format!("{} ends before it", last.display())).into());
            }
            let facts = self.parts[place].close(&line)?.facts;
            if facts != end.facts {
                return Err(Fault::new("the shards do not agree on the whole")
                    .at(self.parts[place].path.display())
                    .into());
            }
        }
        Ok(end.facts)
    }

    fn parse<T: DeserializeOwned + Send>(&self, lines: Vec<(usize, usize, Vec<u8>)>) -> Result<Vec<T>> {
        let parse = |(place, number, line): (usize, usize, Vec<u8>)| match serde_json::from_slice(&line) {
            Ok(Line::Item(item)) => Ok(item),
            Ok(Line::End(_)) => Err(self.parts[place].changed()),
            Err(error) => Err(Fault::new(format!("not an item of a shard: {}", describe(&error)))
                .at(format!("{}:{number}", self.parts[place].path.display()))
                .into()),
        };
        lines.into_par_iter().map(parse).collect()
    }
}

impl Part {
    fn open(path: &Path) -> Result<(Head, Self)> {
        let file = File::open(path).map_err(|source| Error::read(path, source))?;
        let reader = BufReader::with_capacity(1 << 18, file);
        let mut part = Self { path: path.to_path_buf(), reader, hasher: Sha256::new(), line: 0, items: 0 };
        let other = || {
            let fault = Fault::new("not a shard").at(path.display());
            fault.expected("a file that a command with `--shard` wrote")
        };
        let mut line = Vec::new();
        part.reader.read_until(b'\n', &mut line).map_err(|source| Error::read(path, source))?;
        let head: Head = serde_json::from_slice(&line).map_err(|_| other())?;
        if head.topalign_shard != FORM || !(1..=head.of).contains(&head.number) {
            return Err(other().into());
        }
        part.hasher.update(&line);
        part.line = 1;
        Ok((head, part))
    }

    /// The next whole line; the digest grows by it unless it closes the file.
    fn next_line(&mut self) -> Result<Vec<u8>> {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).map_err(|source| Error::read(&self.path, source))?;
        if line.last() != Some(&b'\n') {
            let fault = Fault::new("the shard is cut: the line that closes it is missing").at(self.path.display());
            return Err(fault.hint("copy it again, or run its command again").into());
        }
        self.line += 1;
        if !line.starts_with(END) {
            self.hasher.update(&line);
            self.items += 1;
        }
        Ok(line)
    }

    fn close(&mut self, line: &[u8]) -> Result<End> {
        let Ok(Line::<serde::de::IgnoredAny>::End(end)) = serde_json::from_slice(line) else {
            return Err(self.changed());
        };
        let digest = hex::encode(self.hasher.finalize_reset());
        let follows = !self.reader.fill_buf().map_err(|source| Error::read(&self.path, source))?.is_empty();
        if end.sha256 != digest || end.items != self.items || follows { Err(self.changed()) } else { Ok(end) }
    }

    fn changed(&self) -> Error {
        let fault = Fault::new("the shard was changed: it is not what its digest says").at(self.path.display());
        fault.hint("copy it again, or run its command again").into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    use super::{Shard, ShardFile, Shards, Task};

    fn write(folder: &Path, shard: &str, items: usize, task: Task) -> PathBuf {
        let (path, shard) = (folder.join(shard.replace('/', "-of-")), shard.parse::<Shard>().unwrap());
        let mut file = ShardFile::create(&path, shard, task).unwrap();
        for index in shard.indices(items) {
            file.items(&[index]).unwrap();
        }
        file.commit(&items).unwrap();
        path
    }

    fn task(seed: u64) -> Task {
        Task::new("count", &serde_json::json!({"seed": seed}), BTreeMap::new()).unwrap()
    }

    fn read(paths: &[PathBuf]) -> Result<Vec<usize>, String> {
        let mut all = Vec::new();
        let visit = |items: Vec<usize>| {
            all.extend(items);
            Ok(())
        };
        Shards::open(paths).and_then(|shards| shards.each(visit)).map_err(|error| error.to_string())?;
        Ok(all)
    }

    #[test]
    fn shards_are_numbered_from_one_and_every_item_is_of_one_of_them() {
        for bad in ["0/3", "4/3", "1/0", "1", "a/b", "-1/2", "1/2/3", ""] {
            assert!(bad.parse::<Shard>().is_err(), "{bad}");
        }
        let shards: Vec<Shard> = (1..=3).map(|number| format!("{number}/3").parse().unwrap()).collect();
        for index in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.takes(index)).count(), 1);
        }
        assert_eq!(shards[1].indices(6).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn a_whole_set_gives_all_items_in_order_whatever_their_number() {
        let folder = tempfile::tempdir().unwrap();
        for of in 1..=4 {
            for items in [0, 1, 2, 3, 7, 2_500] {
                let mut paths: Vec<PathBuf> =
                    (1..=of).map(|number| write(folder.path(), &format!("{number}/{of}"), items, task(1))).collect();
                paths.reverse();
                assert_eq!(read(&paths).unwrap(), (0..items).collect::<Vec<_>>(), "{of} {items}");
            }
        }
    }

    #[test]
    fn missing_doubled_foreign_cut_and_changed_shards_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        let [one, two] = ["1/2", "2/2"].map(|shard| write(here, shard, 5, task(1)));
        let other = write(&here.join("other"), "2/2", 5, task(2));
        let third = write(here, "2/3", 5, task(1));
        let longer = write(&here.join("longer"), "2/2", 9, task(1));
        let text = std::fs::read_to_string(&two).unwrap();
        let [cut, changed, plain] = ["cut", "changed", "plain"].map(|name| here.join(name));
        std::fs::write(&cut, text.rsplit_once("{\"end\"").unwrap().0).unwrap();
        std::fs::write(&changed, text.replace("{\"item\":3}", "{\"item\":4}")).unwrap();
        std::fs::write(&plain, "{\"trace_id\": 1}\n").unwrap();
        for (second, expected) in [
            (None, "shards are missing: 2 of 2"),
            (Some(&one), "shard 1 of 2 is there twice"),
            (Some(&other), "another setting `seed`, got `2`, expected `1`"),
            (Some(&third), "another number of shards"),
            (Some(&longer), "more items than the others"),
            (Some(&cut), "the shard is cut"),
            (Some(&changed), "the shard was changed"),
            (Some(&plain), "not a shard"),
        ] {
            let paths: Vec<PathBuf> = std::iter::once(&one).chain(second).cloned().collect();
            let error = read(&paths).unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
        assert_eq!(read(&[two, one]).unwrap(), [0, 1, 2, 3, 4]);
    }
}
