//! A bridge inside a program: whoever connects to a local port speaks to a server elsewhere, one
//! JSON-RPC message a line: `cargo run --example bridge -- https://example.com/mcp`
#![expect(clippy::print_stdout, reason = "a program")]

use mcp_span::{Bridge, BridgeEnd, Demo, Error, Link};
use tokio::net::{TcpListener, TcpStream};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let demo = Demo::start().await?;
    let url = std::env::args().nth(1).unwrap_or_else(|| demo.url().to_string());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("connect to {}", listener.local_addr()?);
    loop {
        let (socket, peer) = listener.accept().await?;
        let url = url.clone();
        tokio::spawn(async move { println!("{peer}: {:?}", serve(socket, &url).await) });
    }
}

pub(crate) async fn serve(socket: TcpStream, url: &str) -> Result<BridgeEnd, Error> {
    let (input, output) = socket.into_split();
    Bridge::new(Link::over(input, output), url).run().await
}
