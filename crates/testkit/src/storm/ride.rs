//! A storm from its beginning to its end, for a client in whatever language.

use handback_client::Transport;
use handback_core::calls::Counts;

use super::{Runs, Server, Storm, configure};
use crate::faults::{self, Fault, Faults, Plan, Range};
use crate::server::TestServer;

/// A storm in which some fault never occurred shows little, and goes on for so many calls, so often.
const MORE: (usize, usize) = (50, 20);

/// A server, and a network before it that misbehaves.
pub struct Ride {
    transport: Transport,
    server: TestServer,
    faults: Faults,
}

impl Ride {
    /// Starts the server. The client's calls will come by this transport.
    pub async fn begin(transport: Transport) -> Self {
        let server = TestServer::with(configure).await;
        let faults = Faults::with(server.address, plan(transport, faults::seed())).await.expect("a free port");
        Self { transport, server, faults }
    }

    /// Where the client, which calls itself `storm`, finds the server.
    pub fn url(&self) -> &str {
        &self.faults.url
    }

    /// Makes the calls, until each kind of fault has occurred. Then the storm is over, and the client may go.
    pub async fn rage(&self, calls: usize) -> Storm {
        let mut storm = Storm::begin(&self.server.url, "storm", self.faults.seed(), Server::Stays).await;
        storm.rage(calls, |_| {}).await;
        for _ in 0..MORE.1 {
            if self.all_occurred() {
                break;
            }
            storm.rage(MORE.0, |_| {}).await;
        }
        println!("{:?}", self.faults.report());
        assert!(self.all_occurred(), "some fault never occurred");
        self.faults.calm();
        storm
    }

    /// Checks that everybody tells the same of each call, and that nothing is left of a client that has gone.
    pub async fn end(self, storm: Storm, runs: &Runs) {
        storm.check(runs).await;
        Storm::until_nothing_is_left(&self.server.url).await;
        assert_eq!(self.server.counts(), Counts::default());
    }

    /// Whether each fault occurred that can befall this transport.
    fn all_occurred(&self) -> bool {
        use Fault::{FrameDelayed, FrameRepeated};
        use Fault::{MessageDelayedDown, MessageDelayedUp, MessageRepeatedDown, MessageRepeatedUp};
        let foreign: &[Fault] = match self.transport {
            Transport::Sse => &[MessageDelayedDown, MessageDelayedUp, MessageRepeatedDown, MessageRepeatedUp],
            _ => &[FrameDelayed, FrameRepeated],
        };
        let report = self.faults.report();
        Fault::ALL.iter().all(|fault| foreign.contains(fault) || report[fault.name()] > 0)
    }
}

/// A stream alone passes less than a socket that carries everything, and stands more. It has more connections, too: of the
/// hundred of a storm of sockets, some in each direction are to be throttled.
pub fn plan(transport: Transport, seed: u64) -> Plan {
    match transport {
        Transport::Sse => Plan { later: Range(600, 100_000), soon_chance: 0.3, ..Plan::seeded(seed) },
        _ => Plan { throttle_chance: 0.2, ..Plan::seeded(seed) },
    }
}
