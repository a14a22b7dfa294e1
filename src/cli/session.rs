//! `topalign session`: probe agents against target agents, and the analysis of what they left.

use std::path::{Path, PathBuf};

use super::Console;
use crate::device::{Compute, DeviceChoice, NumberFormat};
use crate::error::{Fault, Result};
use crate::exposure::{events, text_summary};
use crate::report::{Reference, render_sessions, sessions_to_show};
use crate::run::atomic;
use crate::session::{self, Outcome, SessionRecipe, text_frontier, text_known};

/// Arguments.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recipe of sessions (TOML).
    recipe: PathBuf,
    /// Run folder [default: runs/NAME].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Override a key of the recipe, e.g. `repeats=2`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
    /// Where to compute: auto, cpu, cuda:0 (or another number), cuda:all, metal [default: cpu].
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
    /// Keep the sessions that an earlier run of the same recipe finished, and go on at the next one.
    #[arg(long)]
    resume: bool,
}

/// Runs the command.
///
/// # Errors
/// An invalid recipe, a model that cannot be loaded or is given up, an unwritable folder.
pub fn run(arguments: &Arguments, console: Console) -> Result<()> {
    let recipe = SessionRecipe::load(&arguments.recipe, &arguments.overrides)?;
    let settings = &recipe.settings;
    let folder = arguments.out.clone().unwrap_or_else(|| Path::new("runs").join(&settings.name));
    if arguments.device.is_some() && !settings.has_local_model() {
        return Err(Fault::new("no model of this recipe runs on this machine")
            .at("--device")
            .hint("leave it out; endpoints and scripted models compute elsewhere or not at all")
            .into());
    }
    let compute = Compute::open(arguments.device, NumberFormat::F32, 0)?;
    let outcome = session::run(settings, &folder, arguments.resume, &compute)?;
    let shown = events(&outcome.files, &sessions_to_show(&outcome.summary), None)?;
    let page = folder.join("exposure").join("exposure.html");
    let html = render_sessions(&outcome, &shown, &settings.name, Reference::Own);
    atomic::write(&page, html.as_bytes())?;
    console.print(&outcome, &format!("{}\npage: {}", text(&outcome), page.display()))
}

fn text(outcome: &Outcome) -> String {
    let counts: Vec<String> = outcome.sessions.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let [play, analysis] = outcome.seconds;
    format!(
        "sessions: {}; played in {play:.1} s, analysed in {analysis:.1} s\n{}{}{}",
        counts.join(", "),
        text_summary(&outcome.summary),
        text_frontier(&outcome.frontier),
        text_known(&outcome.known)
    )
}
