//! The server of a storm as a process of its own, to be killed: its arguments are the address and the directory of its data.
#![expect(clippy::expect_used, reason = "test code: a failure is a failed test")]

use std::future::pending;

use handback_server::Server;
use handback_server::config::Config;
use handback_testkit::storm;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut config = Config::default();
    storm::configure(&mut config);
    config.listen = arguments.next().expect("an address").parse().expect("an address");
    config.data = arguments.next().map(Into::into);
    let server = Server::bind(config).await.expect("the server starts");
    println!("listening on {}", server.local_addr());
    server.run(pending()).await;
}
