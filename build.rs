//! Tells a release build which commit it is, for the manifests of its runs. Outside a git checkout it stays unknown.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=TOPALIGN_COMMIT");
    // A development build would recompile at every commit for a line that only runs of record need.
    if std::env::var("PROFILE").as_deref() != Ok("release") || std::env::var_os("TOPALIGN_COMMIT").is_some() {
        println!("cargo:rerun-if-changed=build.rs");
        return;
    }
    for path in [".git/HEAD", ".git/index"] {
        if std::path::Path::new(path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "HEAD"]);
    let changes = git(&["status", "--porcelain", "--untracked-files=no"]);
    if let (Some(commit), Some(changes)) = (commit, changes) {
        let dirty = if changes.is_empty() { "" } else { "-dirty" };
        println!("cargo:rustc-env=TOPALIGN_COMMIT={commit}{dirty}");
    }
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
