//! The systemd unit: systemd takes it, and what it starts serves.

use std::process::{Command, Stdio};

use super::{Machine, succeed};
use crate::processes::start;

#[test]
#[ignore = "`make packages` runs it"]
fn the_unit_is_valid_and_starts_a_server() {
    let machine = Machine::new("service");
    let unpacked = machine.unpack();
    let unit = std::fs::read_to_string(unpacked.join("handback.service")).unwrap();
    let unit = unit.replace("/usr/local/bin/handback", unpacked.join("handback").to_str().unwrap());
    let file = machine.folder.join("handback.service");
    std::fs::write(&file, &unit).unwrap();
    succeed(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&file));

    // As systemd does: its own directories, and the settings of the unit.
    let directories = [("%S", machine.folder.join("lib")), ("%E", machine.folder.join("etc"))];
    let values = |key: &str| -> Vec<String> {
        let lines = unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned);
        let real = |value: String| {
            directories.iter().fold(value, |value, (name, path)| value.replace(name, path.to_str().unwrap()))
        };
        lines.map(real).collect()
    };
    let working_directory = &values("WorkingDirectory")[0];
    std::fs::create_dir_all(working_directory).unwrap();
    std::fs::write(format!("{working_directory}/handback.toml"), "listen = \"127.0.0.1:0\"\nlog = \"off\"\n").unwrap();
    for directory in values("StateDirectory") {
        std::fs::create_dir_all(machine.folder.join("lib").join(directory)).unwrap();
    }
    let commands = values("ExecStart");
    let [started] = &commands[..] else { panic!("{commands:?}") };
    let mut words = started.split_whitespace();
    let mut command = machine.command(words.next().unwrap());
    command.args(words).current_dir(working_directory).stdin(Stdio::null()).stderr(Stdio::null());
    command.envs(values("Environment").iter().map(|setting| setting.split_once('=').unwrap()));
    let (_server, url) = start(command);
    assert!(url.starts_with("http://127.0.0.1:"), "the settings are not read: {url}");
    succeed(Command::new("curl").args(["--fail", "--silent", &format!("{url}/healthz")]));
    assert!(machine.folder.join("lib/handback/handback.db").exists());
}
