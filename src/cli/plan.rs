//! A dry run in words.

use std::fmt::Write as _;

use super::Console;
use crate::error::Result;
use crate::train::{Activations, DropReason, Example, Plan};

/// Prints what a run would do.
///
/// # Errors
/// As [`Console::print`].
pub fn print(plan: &Plan, console: Console) -> Result<()> {
    console.print(plan, &text(plan))
}

/// The plan as text: counts, examples with what is masked and what is trained, memory and time.
fn text(plan: &Plan) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<16}{value}");
    };
    let dropped = |reason: DropReason| plan.dropped.iter().filter(|row| row.reason == reason).count();
    line("rows", format!("{} read, {} trained on in {} units", plan.rows, plan.rows - plan.dropped.len(), plan.units));
    line(
        "left out",
        format!(
            "{} too long, {} with equal answers; {} truncated",
            dropped(DropReason::TooLong),
            dropped(DropReason::ChosenEqualsRejected),
            plan.truncated
        ),
    );
    for row in &plan.dropped {
        let tokens = row.tokens.map_or_else(String::new, |tokens| format!(", {tokens} tokens"));
        line("", format!("{}{tokens}", row.row));
    }
    line("held out", format!("{} units", plan.held_out_units));
    line(
        "tokens",
        format!(
            "{} masked, {} trained in {} answers; longest row {}",
            plan.masked_tokens, plan.trained_tokens, plan.answers, plan.longest_row
        ),
    );
    line("steps", format!("{}, {} tokens", plan.steps, plan.step_tokens));
    line("peak memory", memory(plan));
    line("time", time(plan));
    for (index, example) in plan.examples.iter().enumerate() {
        let _ = write!(text, "\n{}", shown(index, plan.examples.len(), example));
    }
    text
}

fn mebibytes(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

fn memory(plan: &Plan) -> String {
    let memory = &plan.memory;
    let activations = match plan.activations {
        Activations::Kept => "activations",
        Activations::Recomputed => "activations, recomputed by layer",
    };
    format!(
        "about {} MiB: weights {}, gradients and moments {}, {activations} {}, head {}; the rest is the process",
        mebibytes(plan.memory_bytes),
        mebibytes(memory.weights),
        mebibytes(memory.training),
        mebibytes(memory.activations),
        mebibytes(memory.head)
    )
}

fn time(plan: &Plan) -> String {
    let time = &plan.time;
    format!(
        "about {:.1} min: steps {:.1}, passes without gradient {:.1} (one pass of {} tokens took {:.2} s here)",
        (time.steps_seconds + time.forward_seconds) / 60.0,
        time.steps_seconds / 60.0,
        time.forward_seconds / 60.0,
        time.timed_tokens,
        time.timed_seconds
    )
}

fn shown(index: usize, count: usize, example: &Example) -> String {
    let mut text = format!("example {} of {count}: {}\n", index + 1, example.rows.join(", "));
    marked(&mut text, &format!("masked, {} tokens", example.masked_tokens), '-', &example.masked);
    for trained in &example.trained {
        marked(&mut text, &format!("trained, {}, {} tokens", trained.side, trained.tokens), '+', &trained.text);
    }
    text
}

/// Every line of a text behind its mark.
fn marked(out: &mut String, title: &str, mark: char, text: &str) {
    let _ = writeln!(out, "  {title}");
    for line in text.split('\n') {
        let _ = writeln!(out, "  {mark} {line}");
    }
}
