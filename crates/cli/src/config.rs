//! `handback config`, and the settings that `serve` and `token` use.

use std::path::PathBuf;

use clap::Args;
use handback_server::config::{ConfigError, Flag, Inputs, Loaded, Storage, load};
use handback_server::store::{database_in, postgres};

use crate::exit::UsageError;
use crate::output::{Table, print_json, remark};

/// Where settings come from: defaults, a file, HANDBACK_* variables, flags.
#[derive(Debug, Default, Args)]
pub(crate) struct SettingsArgs {
    /// The configuration file; without it handback.toml or handback.json is looked for here, then in the user's
    /// configuration directory.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The address to listen on; port 0 takes a free one [default: 127.0.0.1:4096].
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The directory of the database [default: handback in the user's data directory, ~/.local/share on Linux].
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// Keep everything in a PostgreSQL database: postgres://user:password@host:5432/name. Other programs can see the
    /// arguments of this one; HANDBACK_DATABASE and the configuration file hide a password from them.
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    database: Option<String>,
    /// Keep everything in memory, so that nothing outlives the server.
    #[arg(long, conflicts_with_all = ["data", "database"])]
    ephemeral: bool,
    /// What to log, as a filter such as `debug` or `handback_server=debug,warn` [default: info].
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// How log lines are written: text or json [default: text].
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

impl SettingsArgs {
    /// The settings of a file, for commands without the server's flags.
    pub(crate) fn from_file(config: Option<PathBuf>) -> Self {
        Self { config, ..Self::default() }
    }

    /// The database of a directory, or of the settings if none is named. If they name a PostgreSQL database, the error says
    /// which of its own tools to use instead.
    pub(crate) fn database(
        data: Option<String>,
        config: Option<PathBuf>,
        instead: impl FnOnce(&str) -> String,
    ) -> anyhow::Result<PathBuf> {
        let loaded = Self { data, ..Self::from_file(config) }.load()?;
        let refused = match loaded.config.storage() {
            Storage::Directory(data) => return Ok(database_in(data)),
            Storage::Postgres(url) => instead(&postgres::name_of(url.expose())?),
            Storage::Memory => "there is no directory with a database; name it with --data".to_owned(),
        };
        Err(UsageError(refused).into())
    }

    /// The effective settings. Warnings about them are printed.
    pub(crate) fn load(self) -> anyhow::Result<Loaded> {
        let loaded = self.read().map_err(|error| UsageError(error.to_string()))?;
        for warning in &loaded.warnings {
            remark(&format!("warning: {warning}"));
        }
        Ok(loaded)
    }

    /// The effective settings.
    pub(crate) fn read(self) -> Result<Loaded, ConfigError> {
        let flag = |key, name, value: Option<String>| value.map(|value| Flag { key, value, name });
        // A directory or a database on the command line overrides what the file says of the others.
        let set = |is_set: bool, value: &str| is_set.then(|| value.to_owned());
        let ephemeral = match (&self.data, &self.database) {
            (Some(_), _) => flag("ephemeral", "--data", set(true, "false")),
            (None, Some(_)) => flag("ephemeral", "--database", set(true, "false")),
            (None, None) => flag("ephemeral", "--ephemeral", set(self.ephemeral, "true")),
        };
        let database = match &self.data {
            Some(_) => flag("database", "--data", set(true, "")),
            None => flag("database", "--database", self.database),
        };
        let flags = [
            flag("listen", "--listen", self.listen),
            flag("data", "--data", self.data),
            database,
            ephemeral,
            flag("log", "--log", self.log),
            flag("logFormat", "--log-format", self.log_format),
        ];
        load(&Inputs::from_process(self.config, flags.into_iter().flatten().collect()))
    }
}

/// Shows the settings that `handback serve` would use, and where each came from.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  HANDBACK_LISTEN=127.0.0.1:8080 handback config --config handback.toml")]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Print the settings as JSON, for scripts.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: ConfigArgs) -> anyhow::Result<()> {
    let rows = args.settings.load()?.rows();
    if args.json {
        return print_json(&rows);
    }
    let rows = rows.into_iter().map(|row| [row.key, row.value, row.source]);
    Ok(Table::new(["KEY", "VALUE", "FROM"], "no settings", rows).print()?)
}
