//! The configuration.

use std::path::Path;

use handback_server::config::{Inputs, load};

use super::{app, first_line, in_time, sections};
use crate::Scratch;

/// A file, as TOML or JSON, and the lines of an environment: a configuration that is accepted can be shown, and a server
/// can be set up with it, or says why not.
pub fn configuration(bytes: &[u8]) {
    thread_local! { static SCRATCH: Scratch = Scratch::new(); }
    SCRATCH.with(|scratch| {
        for name in ["handback.toml", "handback.json"] {
            check(&scratch.join(name), bytes);
        }
    });
}

fn check(file: &Path, bytes: &[u8]) {
    let sections = sections(bytes);
    std::fs::write(file, sections[0]).unwrap();
    let environment = String::from_utf8_lossy(sections.get(1).copied().unwrap_or_default()).into_owned();
    let variables = environment.lines().filter_map(|line| line.split_once('='));
    let inputs = Inputs {
        file: Some(file.to_owned()),
        environment: variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        ..Inputs::default()
    };
    let loaded = match load(&inputs) {
        Ok(loaded) => loaded,
        Err(error) => return assert!(!first_line(error.to_string().as_bytes()).0.is_empty()),
    };
    assert!(!loaded.rows().is_empty());
    let mut config = loaded.config;
    // Nothing is written to where the file says.
    (config.ephemeral, config.data) = (true, None);
    in_time(async { _ = app(config).await.map_err(|error| assert!(!error.is_empty())) });
}
