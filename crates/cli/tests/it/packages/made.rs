//! What the packages are made of, and what a release uploads.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{Machine, package, packages, succeed};
use crate::markdown::root;

#[test]
#[ignore = "`make packages` runs it"]
fn npm_installs_the_manual_pages_with_the_command() {
    let machine = Machine::new("global");
    let launcher = concat!("handback-", env!("CARGO_PKG_VERSION"));
    let found = [package("handback-", "64-", ".tgz"), package(launcher, "", ".tgz")];
    let prefix = machine.folder.join("prefix");
    let arguments = ["install", "--global", "--silent", "--no-audit", "--no-fund", "--prefix"];
    succeed(machine.command("npm").args(arguments).arg(&prefix).args(found));
    let version = succeed(machine.command(prefix.join("bin/handback").to_str().unwrap()).arg("--version"));
    assert_eq!(version.trim(), concat!("handback ", env!("CARGO_PKG_VERSION")));
    let page = succeed(machine.command("man").arg("-M").arg(prefix.join("share/man")).arg("handback-serve"));
    assert!(page.starts_with("handback-serve(1)"), "{page}");
}

#[test]
#[ignore = "`make packages` runs it"]
fn zsh_and_fish_find_the_completions_of_the_wheel() {
    let listed =
        succeed(Machine::new("wheel").command("python3").args(["-m", "zipfile", "-l"]).arg(package("", "", ".whl")));
    for file in ["share/zsh/site-functions/_handback", "share/fish/vendor_completions.d/handback.fish"] {
        assert!(listed.contains(&format!(".data/data/{file} ")), "{file} is not in {listed}");
    }
}

/// Packages a binary of this version, which asks for this of glibc. Neither the binary nor the tool that looks at it is real.
fn made(machine: &Machine, version: &str, asks_for: &str) -> (bool, Vec<String>) {
    let out = machine.folder.join("made");
    std::fs::create_dir_all(&out).unwrap();
    let write = |name: &str, script: &str| -> PathBuf {
        let path = machine.folder.join("no-rust").join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    write("objdump", &format!("echo '  NEEDED   libc.so.6'; echo '{asks_for}'"));
    let binary = format!("case $1 in --version) echo handback {version};; man) mkdir $2; touch $2/handback.1;; esac");
    let binary = write("handback", &binary);
    let mut make = machine.command(root().join("packaging/make.py").to_str().unwrap());
    make.arg("binary").arg(binary).args(["--target", "x86_64-unknown-linux-gnu", "--out"]).arg(&out);
    let is_made = make.output().unwrap().status.success();
    let files = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = files.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    if let Some(tarball) = names.iter().find(|name| name.ends_with(".tar.gz")) {
        names.extend(succeed(machine.command("tar").arg("-tzf").arg(out.join(tarball))).lines().map(str::to_owned));
    }
    std::fs::remove_dir_all(out).unwrap();
    (is_made, names)
}

#[test]
#[ignore = "`make packages` runs it"]
fn packages_say_what_the_binary_needs_and_have_no_image_that_it_does_not_run_on() {
    let machine = Machine::new("made");
    for (asks_for, wheel, has_image) in [
        ("GLIBC_2.34 GLIBC_2.9", "manylinux_2_34", true),
        ("GLIBC_2.34 GLIBC_ABI_DT_RELR", "manylinux_2_36", true),
        ("GLIBC_2.39", "manylinux_2_39", false),
    ] {
        let (is_made, files) = made(&machine, "0.2.0", asks_for);
        let wheel = format!("handback_server-0.2.0-py3-none-{wheel}_x86_64.whl");
        assert!(is_made && files.contains(&wheel), "{asks_for}: {files:#?}");
        assert!(files.iter().any(|file| file.ends_with("/handback.service")), "{files:#?}");
        assert_eq!(files.iter().any(|file| file.ends_with("/Dockerfile")), has_image, "{asks_for}: {files:#?}");
    }
    let (is_made, files) = made(&machine, "0.2.0-rc.1", "GLIBC_2.34");
    let wheel = "handback_server-0.2.0rc1-py3-none-manylinux_2_34_x86_64.whl";
    assert!(is_made && files.iter().any(|file| file == wheel), "{files:#?}");
    assert!(!made(&machine, "0.2.0-nightly", "GLIBC_2.34").0, "a wheel cannot have this version");
}

/// If several machines uploaded a file of the same name, nobody would know which of them is released.
#[test]
#[ignore = "`make packages` runs it"]
fn each_machine_uploads_what_it_alone_has() {
    let workflow = std::fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    let (_, paths) = workflow.split_once("path: |\n").unwrap();
    let paths = paths.lines().map_while(|line| line.trim().strip_prefix("target/packages/"));
    let fits = |name: &str| {
        paths.clone().any(|pattern| {
            let (start, end) = pattern.split_once('*').unwrap();
            name.strip_prefix(start).is_some_and(|rest| rest.contains(end.trim_end_matches('*')))
        })
    };
    let names = std::fs::read_dir(packages()).unwrap().map(|entry| entry.unwrap().path());
    let left: Vec<String> = names
        .map(|path: PathBuf| Path::file_name(&path).unwrap().to_str().unwrap().to_owned())
        .filter(|name| !fits(name))
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(left.len(), 2, "{left:?}");
    for common in [format!("handback-{version}.tgz"), format!("handback-client-{version}.tgz")] {
        assert!(left.contains(&common), "{left:?}");
    }
}
