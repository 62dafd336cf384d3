use super::*;

#[test]
fn the_binary_is_the_one_that_is_named_first() {
    let named = PathBuf::from("mine");
    let variable = |name: &str| Some(OsString::from(name));
    let alone = Path::new("/no/such/program");
    assert_eq!(binary(Some(&named), variable("other"), alone), named);
    assert_eq!(binary(None, variable("other"), alone), Path::new("other"));
    assert_eq!(binary(None, variable(""), alone), Path::new("handback"));
    assert_eq!(binary(None, None, alone), Path::new("handback"));
}

#[test]
fn the_binary_of_the_npm_package_above_the_program_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let program = root.join("target/debug/program");
    let installed = root.join("node_modules/@handback").join(machine()).join("bin/handback");
    std::fs::create_dir_all(installed.parent().unwrap()).unwrap();
    std::fs::write(&installed, "").unwrap();
    // A binary alone may be left over from an earlier installation.
    assert_eq!(binary(None, None, &program), Path::new("handback"));
    std::fs::create_dir(root.join("node_modules/handback")).unwrap();
    assert_eq!(binary(None, None, &program), installed);
    assert_eq!(binary(None, Some("other".into()), &program), Path::new("other"));
}
