//! What the client commands share: which server, as whom, and how answers are shown.

use clap::Args;
use handback_client::{Api, Error};
use serde::Serialize;

use crate::output::{Table, print_json};

const DEFAULT_URL: &str = "http://127.0.0.1:4096";

/// The server that a command speaks to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The server.
    #[arg(long, value_name = "URL", env = "HANDBACK_URL", hide_env_values = true, default_value = DEFAULT_URL)]
    url: String,
    /// An application key or a client token, where the server asks for one.
    #[arg(long, value_name = "TOKEN", env = "HANDBACK_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

impl ServerArgs {
    /// The server's API. Empty values, as of a variable that is set to nothing, count as absent.
    pub(crate) fn api(&self) -> Result<Api, Error> {
        let url = if self.url.is_empty() { DEFAULT_URL } else { &self.url };
        Api::new(url, self.token.as_deref().filter(|token| !token.is_empty()))
    }
}

/// The server, and how its answers are shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// Print the answer as JSON, for scripts.
    #[arg(long)]
    pub(crate) json: bool,
}

impl QueryArgs {
    /// Prints an answer as the table that `table` makes of it, or as JSON.
    pub(crate) fn show<T: Serialize>(
        &self,
        answer: Result<T, Error>,
        table: impl FnOnce(T) -> Table,
    ) -> anyhow::Result<()> {
        let answer = self.checked(answer)?;
        if self.json { print_json(&answer) } else { Ok(table(answer).print()?) }
    }

    /// An answer, or its error; with `--json` the error's body is printed as well, so that scripts see its code.
    pub(crate) fn checked<T>(&self, answer: Result<T, Error>) -> anyhow::Result<T> {
        if let (true, Err(Error::Refused(refusal))) = (self.json, &answer)
            && let Some(body) = &refusal.body
        {
            print_json(body)?;
        }
        Ok(answer?)
    }
}

/// The word that the API has for a value, such as `awaiting_approval`.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}
