//! Many connections of one peer: none takes the places of others by saying nothing.

use std::net::SocketAddr;
use std::time::Duration;

use handback_testkit::server::until;
use handback_testkit::{RawSocket, TestServer, TestSocket};
use tokio::net::TcpSocket;

const REQUEST: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// A connection from another address than all others.
async fn open_elsewhere(server: &TestServer) -> RawSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
    RawSocket::on(socket.connect(server.address).await.unwrap())
}

/// Whether a request is answered.
async fn is_served(socket: &mut RawSocket) -> bool {
    socket.send(REQUEST).await.is_ok() && socket.answer().await.0.status == 200
}

#[tokio::test]
async fn of_too_many_connections_of_one_peer_without_a_whole_head_the_oldest_are_closed() {
    let server = TestServer::with(|config| {
        config.limits.new_connections_per_peer = 8;
        config.limits.connections = 32;
        config.limits.header_timeout = Duration::from_secs(60);
    })
    .await;
    let mut elsewhere = open_elsewhere(&server).await;
    // What has sent a head once is none of them, whether it has more to say or not.
    let mut kept = RawSocket::open(server.address).await;
    assert!(is_served(&mut kept).await);
    let _stream = server.stream("tab").await;
    let _socket = server.socket("tab").await;

    let mut silent = Vec::new();
    for number in 0..100 {
        let mut socket = RawSocket::open(server.address).await;
        // Some say nothing, some a part of a head.
        let head = ["", "G", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"][number % 3];
        // The oldest may be gone by now, but not this one.
        socket.send(head).await.unwrap();
        silent.push((head, socket));
    }
    let newest = silent.split_off(92);
    for (_, mut oldest) in silent {
        assert_eq!(oldest.drain().await, 0, "it is closed without a word");
    }
    for (head, mut socket) in newest {
        socket.send(REQUEST.strip_prefix(head).unwrap()).await.unwrap();
        assert_eq!(socket.answer().await.0.status, 200, "{head:?}");
    }
    // Others are as they were.
    assert!(is_served(&mut elsewhere).await && is_served(&mut kept).await);
    assert_eq!(server.counts().connections, 2);
}

#[tokio::test]
async fn a_peer_that_opens_more_than_there_is_room_for_locks_nobody_out() {
    let server = TestServer::with(|config| {
        config.limits.new_connections_per_peer = 16;
        config.limits.connections = 64;
    })
    .await;
    let mut crowd = Vec::new();
    for _ in 0..300 {
        crowd.push(RawSocket::open(server.address).await);
    }
    let mut elsewhere = open_elsewhere(&server).await;
    assert!(is_served(&mut elsewhere).await);
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn websockets_take_places_among_all_connections_too() {
    let server = TestServer::with(|config| config.limits.connections = 2).await;
    let sockets = [server.socket("tab").await, server.socket("tab").await];
    let (head, refused) = RawSocket::exchange(server.address, REQUEST).await;
    refused.must_fail(503, "UNAVAILABLE");
    assert_eq!(head.header("retry-after"), "1");
    let refused = TestSocket::try_open(&server.socket_url("tab"), None).await;
    assert_eq!(refused.err().map(|(status, _)| status), Some(503));
    drop(sockets);
    until("there is room", async || RawSocket::exchange(server.address, REQUEST).await.0.status == 200).await;
}
