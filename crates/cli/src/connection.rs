//! The part that the client commands share: the server, the token, and the printing of answers.

use std::ffi::OsStr;
use std::io;

use clap::builder::{PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{Arg, Args, Command};
use handback_client::{Api, Client, ClientOptions, Error};
use reqwest::Url;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::output::print_json;

const DEFAULT_URL: &str = "http://127.0.0.1:4096";

/// The server that a command speaks to.
#[derive(Debug, Clone, Args)]
pub(crate) struct ServerArgs {
    /// The server [default: http://127.0.0.1:4096].
    #[arg(long, value_name = "URL", env = "HANDBACK_URL", hide_env_values = true)]
    url: Option<String>,
    /// An application key or a client token, where the server asks for one
    #[arg(long, value_name = "TOKEN", env = "HANDBACK_TOKEN", hide_env_values = true, value_parser = TokenParser)]
    token: Option<Token>,
}

/// A token, and whether it was typed on the command line. The token of the environment is for the Handback server.
#[derive(Debug, Clone)]
struct Token {
    text: String,
    is_typed: bool,
}

#[derive(Clone)]
struct TokenParser;

impl TypedValueParser for TokenParser {
    type Value = Token;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Token, clap::Error> {
        self.parse_ref_(command, arg, value, ValueSource::CommandLine)
    }

    fn parse_ref_(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
        source: ValueSource,
    ) -> Result<Token, clap::Error> {
        let text = StringValueParser::new().parse_ref(command, arg, value)?;
        Ok(Token { text, is_typed: source == ValueSource::CommandLine })
    }
}

impl ServerArgs {
    /// The server's API.
    pub(crate) fn api(&self) -> Result<Api, Error> {
        Api::new(self.url(), self.token())
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> Result<Client, Error> {
        let token = self.token().map(str::to_owned);
        Client::new(self.url(), ClientOptions::with(|options| options.token = token))
    }

    /// The token for a server that may not be the one of `--url`. A typed token is for any server on the same command
    /// line; the token of the environment is sent only to the server of `--url`.
    pub(crate) fn token_for(&self, server: &Url) -> Option<&str> {
        let is_own = || Url::parse(self.url()).is_ok_and(|own| own.origin() == server.origin());
        self.token().filter(|_| self.token.as_ref().is_some_and(|token| token.is_typed) || is_own())
    }

    /// The URL.
    pub(crate) fn url(&self) -> &str {
        self.given_url().unwrap_or(DEFAULT_URL)
    }

    /// The URL, if the command line or the environment names one. An empty one counts as not set.
    pub(crate) fn given_url(&self) -> Option<&str> {
        self.url.as_deref().filter(|url| !url.is_empty())
    }

    /// The token. An empty variable counts as not set.
    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_ref().map(|token| token.text.as_str()).filter(|token| !token.is_empty())
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
    /// Prints an answer with `print`, or as JSON.
    pub(crate) fn show<T: Serialize>(
        &self,
        answer: Result<T, Error>,
        print: impl FnOnce(T) -> io::Result<()>,
    ) -> anyhow::Result<()> {
        let answer = self.checked(answer)?;
        if self.json { print_json(&answer) } else { Ok(print(answer)?) }
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

/// The API's word for a value, such as `awaiting_approval`.
pub(crate) fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().map(str::to_owned).unwrap_or_default()
}

/// A parser of arguments that are one of the API's words.
pub(crate) fn api_word<T>(words: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value(Value::String(word)))
}

#[cfg(test)]
mod tests;
