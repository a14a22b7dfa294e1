//! Claims about the shape of the code itself.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn source_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            source_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The order of modules, as the numbered list of ARCHITECTURE.md gives it.
fn documented_order() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    text.lines()
        .filter_map(|line| {
            let (number, rest) = line.split_once(". `")?;
            number.trim().parse::<usize>().ok()?;
            Some(rest.split('`').next()?.to_owned())
        })
        .collect()
}

fn top_module(path: &Path) -> String {
    let relative = path.strip_prefix(root().join("src")).unwrap();
    let first = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

#[test]
fn a_module_imports_only_modules_before_it() {
    let order = documented_order();
    let rank = |name: &str| order.iter().position(|module| module == name);
    let mut files = Vec::new();
    source_files(&root().join("src"), &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let module = top_module(&file);
        if module == "lib" || module == "main" {
            continue;
        }
        let Some(own) = rank(&module) else {
            wrong.push(format!("`{module}` is not in ARCHITECTURE.md's order"));
            continue;
        };
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let mut rest = line.split("//").next().unwrap_or_default();
            while let Some(start) = rest.find("crate::") {
                rest = &rest[start + "crate::".len()..];
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                if rank(&name).is_some_and(|other| other > own) {
                    wrong.push(format!("{} imports `{name}`, which comes after `{module}`", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_is_longer_than_five_hundred_lines() {
    let mut files = Vec::new();
    source_files(&root().join("src"), &mut files);
    let long: Vec<_> = files
        .iter()
        .map(|file| (std::fs::read_to_string(file).unwrap().lines().count(), file))
        .filter(|(lines, _)| *lines > 500)
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn every_test_that_the_training_checklist_names_exists() {
    let mut files = Vec::new();
    source_files(&root().join("src"), &mut files);
    source_files(&root().join("tests/it"), &mut files);
    let code: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let text = std::fs::read_to_string(root().join("tests/training-checklist.md")).unwrap();
    let named: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| behaviour") && !line.starts_with("| ---"))
        .flat_map(|line| line.split('|').nth(2).unwrap_or_default().split('`').skip(1).step_by(2))
        .collect();
    assert!(named.len() >= 40, "{}", named.len());
    let absent: Vec<&&str> = named.iter().filter(|name| !code.contains(&format!("fn {name}("))).collect();
    assert!(absent.is_empty(), "{absent:?}");
}
