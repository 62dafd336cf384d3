//! The crates of the `handback` binary can be published: their packages are complete.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Every crate that the binary is built of.
const PUBLISHED: [&str; 7] = ["chaos", "cli", "client", "core", "server", "tls", "wire"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a program in the repository, and gives what it prints.
fn run(program: &str, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).current_dir(repository()).output().unwrap();
    assert!(ran.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// The names of the files in the package of a crate that was packaged into a folder.
fn packaged(folder: &str, package: &str) -> Vec<String> {
    let archive = format!("{folder}/package/{package}.crate");
    let names = run("tar", &["-tzf", &archive]);
    names.lines().map(|name| name.strip_prefix(&format!("{package}/")).unwrap().to_owned()).collect()
}

/// The files and folders that a source file has the compiler include, relative to the crate.
fn included(root: &Path, file: &Path) -> Vec<PathBuf> {
    let source = std::fs::read_to_string(file).unwrap();
    let after = |marker: &str, base: &Path| -> Vec<PathBuf> {
        source.split(marker).skip(1).map(|rest| base.join(rest.split('"').next().unwrap())).collect()
    };
    let folder = file.parent().unwrap();
    let named = [after("include_str!(\"", folder), after("include_bytes!(\"", folder), after("#[folder = \"", root)];
    let real = named.concat().into_iter().map(|path| path.canonicalize().unwrap());
    real.map(|path| path.strip_prefix(root).unwrap_or(&path).to_owned()).collect()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = paths.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] });
    found.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

#[test]
fn the_package_of_every_crate_of_the_binary_is_complete() {
    let target = format!("{}/publishing", env!("CARGO_TARGET_TMPDIR"));
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let own = ["--exclude", "handback-testkit", "--exclude", "handback-benches"];
    // `make crates` builds each package.
    let how = ["package", "--workspace", "--no-verify", "--offline", "--allow-dirty", "--target-dir", &target];
    run(&cargo, &[&how[..], &own].concat());
    let mut looked_at = 0;
    for name in PUBLISHED {
        let package = if name == "cli" { "handback".to_owned() } else { format!("handback-{name}") };
        let files = packaged(&target, &format!("{package}-{}", env!("CARGO_PKG_VERSION")));
        for needed in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(files.iter().any(|file| file == needed), "the package of {package} has no {needed}");
        }
        let manifest = std::fs::read_to_string(repository().join("crates").join(name).join("Cargo.toml")).unwrap();
        for key in ["description", "license", "keywords", "categories", "readme"] {
            let is_there = manifest.lines().any(|line| line.starts_with(key));
            assert!(is_there, "crates/{name}/Cargo.toml has no {key}");
        }
        let root = repository().join("crates").join(name);
        for source in sources(&root.join("src")) {
            for path in included(&root, &source) {
                let is_packaged = files.iter().any(|file| Path::new(file).starts_with(&path));
                assert!(is_packaged, "{} includes {}, which is not in its package", source.display(), path.display());
                looked_at += 1;
            }
        }
    }
    assert!(looked_at > 15, "nothing was looked at");
}
