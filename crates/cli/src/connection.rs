//! What the client commands share: which server, as whom, and how answers are shown.

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use handback_client::{Api, Error};
use reqwest::Url;
use serde::Serialize;

use crate::output::{Table, print_json};

const DEFAULT_URL: &str = "http://127.0.0.1:4096";

/// The server that a command speaks to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The server.
    #[arg(long, value_name = "URL", env = "HANDBACK_URL", hide_env_values = true, default_value = DEFAULT_URL)]
    url: String,
    #[command(flatten)]
    token: Token,
}

/// What shows who speaks to a server, and whether it was typed: what the environment has is the Handback server's.
#[derive(Debug, Clone)]
struct Token {
    text: Option<String>,
    is_typed: bool,
}

/// The name of the argument.
const TOKEN: &str = "token";

impl Args for Token {
    fn augment_args(command: Command) -> Command {
        let token = Arg::new(TOKEN).long(TOKEN).value_name("TOKEN").env("HANDBACK_TOKEN").hide_env_values(true);
        command.arg(token.help("An application key or a client token, where the server asks for one"))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Token {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_typed = matches.value_source(TOKEN) == Some(ValueSource::CommandLine);
        // Set to nothing, as a variable may be, is not set.
        let text = matches.get_one::<String>(TOKEN).filter(|text| !text.is_empty()).cloned();
        Ok(Self { text, is_typed })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ServerArgs {
    /// The server's API.
    pub(crate) fn api(&self) -> Result<Api, Error> {
        Api::new(self.url(), self.token.text.as_deref())
    }

    /// The token to send to a server that may be another one: whoever types a token means the server that they name with it,
    /// but the token of the environment is this server's and is sent to no other.
    pub(crate) fn token_for(&self, server: &Url) -> Option<&str> {
        let is_meant = || Url::parse(self.url()).is_ok_and(|own| own.origin() == server.origin());
        self.token.text.as_deref().filter(|_| self.token.is_typed || is_meant())
    }

    /// Set to nothing, as a variable may be, is not set.
    fn url(&self) -> &str {
        if self.url.is_empty() { DEFAULT_URL } else { &self.url }
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

#[cfg(test)]
mod tests;
