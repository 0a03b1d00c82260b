use prometheus::IntGauge;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

use super::*;
use crate::server::metrics::Metrics;

const LONG: Duration = Duration::from_secs(20);

/// A port with room for `limit` connections, and its address.
async fn port(limit: usize, patience: Patience) -> (mpsc::Receiver<Connection>, std::net::SocketAddr, IntGauge) {
    port_of(Protocol::Http2, limit, patience).await
}

async fn port_of(
    protocol: Protocol,
    limit: usize,
    patience: Patience,
) -> (mpsc::Receiver<Connection>, std::net::SocketAddr, IntGauge) {
    // Not `Listener::bind`, with which the system keeps silent peers to itself.
    let listener = Listener::try_from(TcpListener::bind("127.0.0.1:0").await.unwrap()).unwrap();
    let address = listener.local().tcp().unwrap();
    let metrics = Metrics::register(&prometheus::Registry::new(), "1.2.3", 7).unwrap();
    let counts = Counts::of(&metrics, "grpc");
    let open = counts.open.clone();
    let refusal = b"no".as_slice();
    let gate = Gate { listener, tls: None, protocol, limit, patience, token: false, refusal, counts };
    (gate.open(), address, open)
}

fn patience(handshake: Duration, request: Duration) -> Patience {
    Patience { handshake, greeting: 24, request }
}

async fn read(connection: &mut Connection) -> io::Result<usize> {
    timeout(LONG, connection.read(&mut [0; 64])).await.expect("an end in time")
}

#[tokio::test]
async fn a_trickle_of_bytes_extends_no_deadline() {
    let short = Duration::from_millis(200);
    let (mut entering, address, open) = port(8, patience(short, LONG)).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let mut connection = entering.recv().await.unwrap();
    let mut sent = 0;
    let ended = loop {
        // The 24th byte would complete the greeting.
        if sent < 23 {
            let _ = client.write_all(b"P").await;
            sent += 1;
        }
        match read(&mut connection).await {
            Ok(count) => assert!(count > 0),
            Err(error) => break error,
        }
    };
    assert_eq!(ended.kind(), io::ErrorKind::TimedOut);
    drop(connection);
    assert_eq!(open.get(), 0);

    // A peer that has greeted has until the first request, long enough to read the greeting on a loaded machine.
    let longer = Duration::from_secs(3);
    let (mut entering, address, _open) = port(8, patience(LONG, longer)).await;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&[b'P'; 24]).await.unwrap();
    let mut connection = entering.recv().await.unwrap();
    assert_eq!(read(&mut connection).await.unwrap(), 24);
    assert_eq!(read(&mut connection).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    // And a peer whose request was let in stays.
    let mut client = TcpStream::connect(address).await.unwrap();
    let mut connection = entering.recv().await.unwrap();
    drop(connection.visit().serve());
    let waiting = tokio::spawn(async move { read(&mut connection).await });
    sleep(longer + 2 * short).await;
    client.write_all(b"late").await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 4);
}

/// Connections of peers that ask again and again rest for a moment only, each at another time.
#[tokio::test]
async fn those_who_never_stop_asking_keep_nobody_waiting() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let (mut entering, address, _open) = port_of(protocol, 8, patience(LONG, LONG)).await;
        let (mut clients, mut busy) = (Vec::new(), Vec::new());
        for _ in 0..8 {
            clients.push(TcpStream::connect(address).await.unwrap());
            busy.push(entering.recv().await.unwrap());
        }
        let visits = busy.iter().map(Connection::visit).collect::<Vec<_>>();
        let asking = tokio::spawn(async move {
            loop {
                for visit in &visits {
                    drop(visit.serve());
                }
                sleep(Duration::from_millis(1)).await;
            }
        });
        clients.push(TcpStream::connect(address).await.unwrap());
        timeout(LONG, entering.recv()).await.expect("a connection").unwrap();
        asking.abort();
    }
}

#[tokio::test]
async fn the_longest_silent_makes_room_then_the_longest_idle() {
    let (mut entering, address, open) = port(3, patience(LONG, LONG)).await;
    let mut clients = Vec::new();
    let mut enter = async || {
        clients.push(TcpStream::connect(address).await.unwrap());
        timeout(LONG, entering.recv()).await.expect("a connection").unwrap()
    };
    let (mut idle, mut silent, busy) = (enter().await, enter().await, enter().await);
    drop(idle.visit().serve());
    let serving = busy.visit().serve();
    let mut next = enter().await;
    assert_eq!(read(&mut silent).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    drop(next.visit().serve());
    let second = enter().await;
    assert_eq!(read(&mut idle).await.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    let held = (second.visit().serve(), next.visit().serve());
    // Now every place is in use.
    let mut refused = TcpStream::connect(address).await.unwrap();
    let mut said = Vec::new();
    timeout(LONG, refused.read_to_end(&mut said)).await.unwrap().unwrap();
    assert_eq!(said, b"no");
    drop((silent, idle));
    assert_eq!(open.get(), 3);
    drop((held, serving));
    assert!(!next.visit().leave.is_cancelled());
    let _ = &mut next;
}
