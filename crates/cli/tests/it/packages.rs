//! What `make packages` has made is installed and used. It runs these tests, and says in `PACKAGES` where the packages are.

mod image;
mod launcher;
mod made;
mod page;
mod service;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::markdown::root;

/// A fresh folder with a fresh home, which is removed when the test ends.
struct Machine {
    folder: PathBuf,
}

impl Machine {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("handback-packages-{name}-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("no-rust")).unwrap();
        for tool in ["cargo", "rustc", "rustup", "cc"] {
            let path = folder.join("no-rust").join(tool);
            std::fs::write(&path, format!("#!/bin/sh\necho '{tool} is not needed' >&2\nexit 127\n")).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        // Without it, npm would install into a folder above that has one.
        std::fs::write(folder.join("package.json"), "{}").unwrap();
        Self { folder: folder.canonicalize().unwrap() }
    }

    /// A command that runs in the folder, without Rust, and away from the settings of whoever runs the tests.
    fn command(&self, program: &str) -> Command {
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        let tools = root().join("packaging/.venv/bin");
        let path = std::env::var("PATH").unwrap();
        let path = format!("{}:{path}:{}", self.folder.join("no-rust").display(), tools.display());
        let mut command = Command::new(program);
        command
            .current_dir(&self.folder)
            .env("PATH", path)
            .env("HOME", &self.folder)
            .env("LC_ALL", "C.UTF-8")
            .env_remove("PACKAGES");
        // What is downloaded is kept from run to run, and comes from where this machine has it from.
        command.env("npm_config_cache", home.join(".npm")).env("npm_config_userconfig", home.join(".npmrc"));
        for (name, _) in std::env::vars_os() {
            let is_setting = |start| name.to_string_lossy().starts_with(start);
            if ["HANDBACK_", "OPENAI_", "ANTHROPIC_", "XDG_"].into_iter().any(is_setting) {
                command.env_remove(name);
            }
        }
        command
    }

    /// Installs the npm packages of the command.
    fn install_from_npm(&self) {
        let arguments = ["install", "--silent", "--no-audit", "--no-fund"];
        let launcher = concat!("handback-", env!("CARGO_PKG_VERSION"));
        let found = [package("handback-", "64-", ".tgz"), package(launcher, "", ".tgz")];
        succeed(self.command("npm").args(arguments).args(found));
    }

    /// Unpacks the tarball; gives the folder that it has.
    fn unpack(&self) -> PathBuf {
        succeed(self.command("tar").arg("-xzf").arg(package("handback-", "", ".tar.gz")));
        let name = package("handback-", "", ".tar.gz");
        self.folder.join(name.file_name().unwrap().to_str().unwrap().trim_end_matches(".tar.gz"))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// The folder with the packages.
fn packages() -> PathBuf {
    let folder = std::env::var_os("PACKAGES").unwrap_or_else(|| panic!("PACKAGES is not set: run `make packages`"));
    PathBuf::from(folder).canonicalize().unwrap()
}

/// The one package whose name has these parts.
fn package(start: &str, middle: &str, end: &str) -> PathBuf {
    let fits = |name: &str| name.starts_with(start) && name.contains(middle) && name.ends_with(end);
    let paths = std::fs::read_dir(packages()).unwrap().map(|entry| entry.unwrap().path());
    let found: Vec<_> = paths.filter(|path| fits(path.file_name().unwrap().to_str().unwrap())).collect();
    let [package] = &found[..] else { panic!("{start}…{middle}…{end}: {found:?}") };
    package.clone()
}

/// Runs a command that must end with 0, and gives what it printed.
fn succeed(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}
