//! The chaos proxy in front of a test's server. If the test fails, what was done and how to repeat it is printed.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;

use handback_chaos::Chaos;
pub use handback_chaos::{Fault, Plan, Range};

/// A proxy on a free port.
pub struct Faults {
    /// Where clients find it.
    pub url: String,
    chaos: Chaos,
}

impl Faults {
    /// A proxy in front of the server at `upstream`.
    ///
    /// # Errors
    /// No port could be had.
    pub async fn with(upstream: SocketAddr, plan: Plan) -> io::Result<Self> {
        let chaos = Chaos::start((Ipv4Addr::LOCALHOST, 0).into(), &upstream.to_string(), plan).await?;
        Ok(Self { url: chaos.url(), chaos })
    }

    /// What chance follows from.
    pub fn seed(&self) -> u64 {
        self.plan().seed
    }
}

impl Deref for Faults {
    type Target = Chaos;

    fn deref(&self) -> &Chaos {
        &self.chaos
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("FAULTS_SEED={}\n{:?}", self.seed(), self.report());
        }
    }
}

/// The seed that `FAULTS_SEED` names, or a new one.
pub fn seed() -> u64 {
    std::env::var("FAULTS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..))
}
