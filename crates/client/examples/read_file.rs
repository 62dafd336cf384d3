//! Lets a model read the text files of one folder, and nothing outside of it.
//!
//! ```sh
//! cargo run --example read_file -- ~/notes
//! handback chat --client files 'Read the file "todo.txt"'
//! ```
//!
//! The folder is opened once, and paths are resolved from there by the operating system: neither `..` nor a symbolic
//! link leads out, not even one that is put there meanwhile.

use std::io::Read;
use std::sync::Arc;

use anyhow::Context;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use handback_client::schemars::{self, JsonSchema};
use handback_client::{Api, CancellationToken, ClientTools, Effect, Options, Tool, ToolError};
use serde::Deserialize;

/// How large a file may be, in bytes; a larger one is an error.
const MAX_BYTES: u64 = 256 * 1024;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// The path of the file in the folder, such as "todo.txt" or "ideas/garden.md".
    path: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let url = std::env::var("HANDBACK_URL").unwrap_or_else(|_| "http://127.0.0.1:4096".to_owned());
    let folder = std::env::args_os().nth(1).context("usage: read_file FOLDER")?;
    let dir = Dir::open_ambient_dir(&folder, ambient_authority()).with_context(|| folder.display().to_string())?;
    let dir = Arc::new(dir);

    let read_file = Tool::typed("read_file", "Reads a text file of the user's folder", move |input: Input, _call| {
        let dir = Arc::clone(&dir);
        // A slow disk keeps a thread busy, not the connection.
        async move { tokio::task::spawn_blocking(move || read(&dir, &input.path)).await? }
    });

    let tools = ClientTools::new(Api::new(&url, None)?, "files", Options::default());
    tools.register(read_file.effect(Effect::Read)).await?;
    println!("offering the files of {} at {url}; Ctrl-C ends it", folder.display());
    tokio::select! {
        ended = tools.run(None, CancellationToken::new()) => ended?,
        pressed = tokio::signal::ctrl_c() => pressed?,
    }
    tools.disconnect().await;
    Ok(())
}

fn read(dir: &Dir, path: &str) -> Result<String, ToolError> {
    let refuse = |reason: &dyn std::fmt::Display| ToolError::new(format!("{path}: {reason}"));
    // Looked at before it is opened: a pipe would have to be waited for.
    if !dir.metadata(path).map_err(|error| refuse(&error))?.is_file() {
        return Err(refuse(&"it is not a file"));
    }
    let file = dir.open(path).map_err(|error| refuse(&error))?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| refuse(&error))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(&format!("it is larger than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| refuse(&"it is not a text in UTF-8"))
}
