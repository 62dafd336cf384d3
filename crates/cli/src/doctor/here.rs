//! What can be seen on this machine: settings, data, open files.

use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use handback_server::config::{Config, Loaded, Storage};
use handback_server::store::{Glance, OpenError, Postgres, database_in, glance, postgres};
use reqwest::Url;
use tokio::time::Instant;

use super::Check;
use crate::config::SettingsArgs;

/// How long before the deadline the look at the database ends, so that its result is there in time.
pub(super) const MARGIN: Duration = Duration::from_millis(500);

/// Less free space is a warning, or a problem.
const LITTLE_SPACE: u64 = 1 << 30;
const NO_SPACE: u64 = 64 << 20;

/// The fewest open files for a server with default settings to serve some hundred clients.
const FEW_FILES: u64 = 1_024;

/// The URL of a server that listens on an address.
pub(super) fn url_of(listen: SocketAddr) -> String {
    let host = match listen.ip() {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    };
    format!("http://{}", SocketAddr::new(host, listen.port()))
}

/// Whether the host of a URL is this machine.
pub(super) fn is_loopback(url: &str) -> bool {
    let url = Url::parse(url);
    let host = url.as_ref().ok().and_then(Url::host_str).unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Reads the settings.
pub(super) fn settings(settings: SettingsArgs) -> (Option<Config>, Vec<Check>) {
    const CHECK: &str = "configuration";
    let Loaded { config, warnings, file, .. } = match settings.read() {
        Ok(loaded) => loaded,
        Err(error) => {
            let remedy = "correct it as the message says; `handback config` shows the settings";
            return (None, vec![Check::problem(CHECK, error.to_string(), remedy)]);
        }
    };
    let found = match &file {
        Some(file) => format!("{} is valid", file.display()),
        None => "there is no file, and none is needed".to_owned(),
    };
    let remedy = "`handback config` shows the settings, and where each came from";
    let warnings = warnings.into_iter().map(|warning| Check::warning(CHECK, warning, remedy));
    (Some(config), [Check::ok(CHECK, found)].into_iter().chain(warnings).collect())
}

/// Looks at the directory of the data and at the database in it, until `until`.
pub(super) fn data(config: &Config, until: Instant) -> Vec<Check> {
    const CHECK: &str = "data";
    let directory = match config.storage() {
        Storage::Directory(directory) => directory,
        Storage::Postgres(url) => return vec![postgres(url.expose(), until)],
        Storage::Memory => return vec![Check::ok(CHECK, "nothing is kept: everything is in memory")],
    };
    let name = directory.display();
    let is_directory = match fs::metadata(directory) {
        Ok(metadata) => metadata.is_dir(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return vec![Check::ok(CHECK, format!("{name} is not there yet; the server makes it"))];
        }
        Err(error) => {
            let remedy = "let the user that runs the server read the directory and those above it";
            return vec![Check::problem(CHECK, format!("{name} cannot be looked at: {error}"), remedy)];
        }
    };
    if !is_directory {
        return vec![Check::problem(CHECK, format!("{name} is no directory"), "name another with --data or `data`")];
    }
    let mut checks = vec![room(directory)];
    checks.extend(database(&database_in(directory), until));
    checks
}

/// Whether files can be written to a directory, and how much room there is.
fn room(directory: &Path) -> Check {
    const CHECK: &str = "data";
    let name = directory.display();
    if let Err(reason) = must_be_writable(directory) {
        let remedy = "let the user that runs the server write to the directory";
        return Check::problem(CHECK, format!("{name} cannot be written to: {reason}"), remedy);
    }
    let Some(free) = free_space(directory) else { return Check::ok(CHECK, format!("{name} can be written to")) };
    let message = format!("{name} can be written to, with {} free", size(free));
    let remedy = "make room on that disk: when it is full, the server takes nothing new";
    match free {
        0..NO_SPACE => Check::problem(CHECK, message, remedy),
        NO_SPACE..LITTLE_SPACE => Check::warning(CHECK, message, remedy),
        _ => Check::ok(CHECK, message),
    }
}

#[cfg(unix)]
fn must_be_writable(directory: &Path) -> Result<(), String> {
    use rustix::fs::{Access, access};
    access(directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| error.to_string())
}

#[cfg(not(unix))]
fn must_be_writable(directory: &Path) -> Result<(), String> {
    let is_read_only = fs::metadata(directory).map_err(|error| error.to_string())?.permissions().readonly();
    if is_read_only { Err("it is read-only".to_owned()) } else { Ok(()) }
}

#[cfg(unix)]
fn free_space(directory: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(directory).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(not(unix))]
fn free_space(_: &Path) -> Option<u64> {
    None
}

/// Looks at the size and the pages of the database.
fn database(file: &Path, until: Instant) -> Option<Check> {
    const CHECK: &str = "database";
    // What was written last may still be in the log beside the file.
    let log = fs::metadata(file.with_extension("db-wal")).map_or(0, |log| log.len());
    let bytes = fs::metadata(file).ok()?.len() + log;
    let remedy = "`handback check` says all that is wrong; stop the server, and put a backup in place of the file";
    let looked = glance(file, until.saturating_duration_since(Instant::now()));
    Some(match looked {
        Ok(Glance::Sound) => Check::ok(CHECK, format!("{}, sound", size(bytes))),
        Ok(Glance::Unfinished) => {
            let message = format!("{}, too large to be looked at in this time", size(bytes));
            Check::ok(CHECK, format!("{message}; `handback check` reads all of it"))
        }
        Ok(Glance::Damaged(line)) => Check::problem(CHECK, format!("it is damaged: {line}"), remedy),
        Err(error @ OpenError::Newer { .. }) => {
            Check::problem(CHECK, error.to_string(), "use the version of handback that wrote it, or a newer one")
        }
        Err(error) => Check::problem(CHECK, error.to_string(), remedy),
    })
}

/// Whether a PostgreSQL database can be reached and used.
fn postgres(url: &str, until: Instant) -> Check {
    const CHECK: &str = "database";
    let looking = async { tokio::time::timeout_at(until, Postgres::glance(url)).await };
    let remedy = "correct `database` or --database, or let this machine reach it; `psql URL` tells more";
    match tokio::runtime::Handle::current().block_on(looking) {
        Ok(Ok(postgres::Glance { database, server, is_prepared, .. })) => {
            let tables = if is_prepared { "has the tables" } else { "is empty; the server makes its tables" };
            Check::ok(CHECK, format!("{database} is there (PostgreSQL {server}) and {tables}"))
        }
        Ok(Err(error @ postgres::OpenError::Newer { .. })) => {
            Check::problem(CHECK, error.to_string(), "use the version of handback that wrote it, or a newer one")
        }
        Ok(Err(error)) => Check::problem(CHECK, error.to_string(), remedy),
        Err(_elapsed) => Check::problem(CHECK, "the database does not answer in time", remedy),
    }
}

/// How many files a server that is started here may open.
pub(super) fn open_files() -> Check {
    const CHECK: &str = "open files";
    match rlimit::Resource::NOFILE.get_hard() {
        Ok(most) if most < FEW_FILES => {
            let message = format!("a server that is started here may open {most}");
            Check::warning(CHECK, message, "raise the limit: `ulimit -Hn`, or LimitNOFILE= of a systemd unit")
        }
        Ok(most) => Check::ok(CHECK, format!("a server that is started here may open {most}")),
        Err(error) => Check::ok(CHECK, format!("the system does not say how many may be open: {error}")),
    }
}

/// A number of bytes, for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes.div_ceil(1 << 10)),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes >> 20),
        _ => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
    }
}
