//! A TCP relay that damages what passes: cuts, resets, stalls, delays, splits, refuses, swallows.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// What happens to one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// Both sides are closed after so many bytes from the client.
    CutRequest(usize),
    /// Both sides are closed after so many bytes from the server.
    CutAnswer(usize),
    /// The client's side is reset after so many bytes from the server.
    ResetAnswer(usize),
    /// Nothing more comes after so many bytes from the server, and nothing is closed.
    StallAnswer(usize),
    /// Every piece is held back for a while.
    Delay(Duration),
    /// Every byte comes on its own.
    Split,
    /// Accepted and reset at once.
    Refuse,
    /// Accepted; what comes in goes nowhere.
    Swallow,
}

type Plan = Arc<dyn Fn(usize) -> Fault + Send + Sync>;

/// Stands between the bridge and a server.
pub(crate) struct Relay {
    pub(crate) url: String,
    open: Arc<Mutex<usize>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Relay {
    /// Relays to `server`; `plan` says what happens to the n-th connection.
    pub(crate) async fn start(
        server: SocketAddr,
        plan: impl Fn(usize) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
        let open = Arc::new(Mutex::new(0));
        let (counted, plan): (_, Plan) = (Arc::clone(&open), Arc::new(plan));
        let accepting = tokio::spawn(async move {
            for number in 0.. {
                let Ok((client, _)) = listener.accept().await else { return };
                let (counted, fault) = (Arc::clone(&counted), plan(number));
                *counted.lock().expect("no panic under the lock") += 1;
                tokio::spawn(async move {
                    carry(client, server, fault).await;
                    *counted.lock().expect("no panic under the lock") -= 1;
                });
            }
        });
        Self { url, open, accepting }
    }

    /// Connections that are open.
    pub(crate) fn open_connections(&self) -> usize {
        self.counter()()
    }

    /// The same for somebody who watches.
    pub(crate) fn counter(&self) -> impl Fn() -> usize + Send + 'static {
        let open = Arc::clone(&self.open);
        move || *open.lock().expect("no panic under the lock")
    }
}

async fn carry(client: TcpStream, server: SocketAddr, fault: Fault) {
    let _ = client.set_nodelay(true);
    if fault == Fault::Refuse {
        let _ = client.set_zero_linger();
        return;
    }
    if fault == Fault::Swallow {
        let (mut read, _write) = client.into_split();
        let mut sink = [0; 4096];
        while let Ok(1..) = read.read(&mut sink).await {}
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else {
        let _ = client.set_zero_linger();
        return;
    };
    let _ = server.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = pump(from_client, to_server, limit_of(fault, true), fault);
    let down = pump(from_server, to_client, limit_of(fault, false), fault);
    tokio::pin!(up, down);
    // Whoever is cut takes the other direction along; an end in order does not.
    let (first, up_ended) =
        tokio::select! { end = &mut up => (end, true), end = &mut down => (end, false) };
    if let End::Cut(mut stream) = first {
        if matches!(fault, Fault::ResetAnswer(_)) {
            let _ = stream.as_ref().set_zero_linger();
        }
        let _ = stream.shutdown().await;
        return;
    }
    if up_ended {
        if !matches!(fault, Fault::StallAnswer(_)) {
            down.await;
        }
    } else {
        up.await;
    }
}

fn limit_of(fault: Fault, upwards: bool) -> Option<usize> {
    match fault {
        Fault::CutRequest(bytes) if upwards => Some(bytes),
        Fault::CutAnswer(bytes) | Fault::ResetAnswer(bytes) | Fault::StallAnswer(bytes)
            if !upwards =>
        {
            Some(bytes)
        }
        _ => None,
    }
}

enum End {
    InOrder,
    Cut(OwnedWriteHalf),
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    limit: Option<usize>,
    fault: Fault,
) -> End {
    let mut left = limit.unwrap_or(usize::MAX);
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(n @ 1..) = from.read(&mut buffer).await else {
            let _ = to.shutdown().await;
            return End::InOrder;
        };
        if let Fault::Delay(pause) = fault {
            tokio::time::sleep(pause).await;
        }
        let passed = n.min(left);
        left -= passed;
        let pieces = if fault == Fault::Split { 1 } else { passed.max(1) };
        for piece in buffer[..passed].chunks(pieces) {
            if to.write_all(piece).await.is_err() {
                return End::InOrder;
            }
        }
        if left == 0 {
            if matches!(fault, Fault::StallAnswer(_)) {
                std::future::pending::<()>().await;
            }
            return End::Cut(to);
        }
    }
}
