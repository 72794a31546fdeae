//! Proxies of the test's own, HTTP and SOCKS5: they note what passes, and misbehave if told to.
//!
//! Whatever host they are asked for, they connect to this machine: a test can use any name.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use super::{Request, bind_again};

/// What a proxy does to one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// HTTP: this status, with a body.
    Status(u16, &'static str),
    /// SOCKS: this code.
    Code(u8),
    /// Closes in the middle of its answer.
    Cut,
    /// Says nothing.
    Hang,
    /// Says what no proxy says.
    Garbage,
}

/// How a proxy behaves.
#[derive(Clone)]
pub(crate) struct ProxyBehavior {
    is_socks: bool,
    tls: Option<TlsAcceptor>,
    login: Option<(&'static str, &'static str)>,
    plan: Arc<dyn Fn(usize) -> Fault + Send + Sync>,
}

/// Listens on a free port of the loopback interface as long as it lives.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    log: Arc<Mutex<Log>>,
    accepting: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Log {
    asked: Vec<String>,
    connections: usize,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The connections go with it: they belong to that task.
        self.accepting.abort();
    }
}

impl ProxyBehavior {
    pub(crate) fn http() -> Self {
        Self { is_socks: false, tls: None, login: None, plan: Arc::new(|_| Fault::None) }
    }

    pub(crate) fn socks() -> Self {
        Self { is_socks: true, ..Self::http() }
    }

    /// TLS to the proxy itself.
    pub(crate) fn tls(self, config: ServerConfig) -> Self {
        Self { tls: Some(TlsAcceptor::from(Arc::new(config))), ..self }
    }

    /// Who may use it.
    pub(crate) fn login(self, user: &'static str, password: &'static str) -> Self {
        Self { login: Some((user, password)), ..self }
    }

    /// What happens to the n-th connection.
    pub(crate) fn plan(self, plan: impl Fn(usize) -> Fault + Send + Sync + 'static) -> Self {
        Self { plan: Arc::new(plan), ..self }
    }

    /// What happens to all of them.
    pub(crate) fn fault(self, fault: Fault) -> Self {
        self.plan(move |_| fault)
    }

    pub(crate) async fn start(self) -> Proxy {
        self.start_at(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await
    }

    pub(crate) async fn start_at(self, address: SocketAddr) -> Proxy {
        let listener = bind_again(address).await;
        let address = listener.local_addr().expect("an address");
        let log = Arc::new(Mutex::new(Log::default()));
        let accepting = tokio::spawn(self.accept(listener, Arc::clone(&log)));
        Proxy { address, log, accepting }
    }

    async fn accept(self, listener: TcpListener, log: Arc<Mutex<Log>>) {
        let mut connections = JoinSet::new();
        for number in 0.. {
            let Ok((stream, _)) = listener.accept().await else { return };
            let _ = stream.set_nodelay(true);
            log.lock().expect("no panic under the lock").connections += 1;
            let serving = Serving { manner: self.clone(), log: Arc::clone(&log), number };
            connections.spawn(async move {
                match &serving.manner.tls {
                    None => serving.serve(stream).await,
                    Some(acceptor) => serving.serve(acceptor.accept(stream).await.ok()?).await,
                }
            });
        }
    }
}

impl Proxy {
    /// Its URL with this scheme.
    pub(crate) fn url(&self, scheme: &str) -> String {
        // The name that certificates are made out to.
        let host =
            if scheme == "https" { "localhost".into() } else { self.address.ip().to_string() };
        format!("{scheme}://{host}:{}", self.address.port())
    }

    /// The same with user and password.
    pub(crate) fn url_for(&self, scheme: &str, login: &str) -> String {
        self.url(scheme).replace("://", &format!("://{login}@"))
    }

    /// What it was asked for: the method and the target, in the order it came.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.log.lock().expect("no panic under the lock").asked.clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.log.lock().expect("no panic under the lock").connections
    }

    /// Closes the listener and all connections.
    pub(crate) async fn stop(mut self) {
        self.accepting.abort();
        let _ = (&mut self.accepting).await;
    }
}

/// One connection.
struct Serving {
    manner: ProxyBehavior,
    log: Arc<Mutex<Log>>,
    number: usize,
}

impl Serving {
    async fn serve<S>(&self, mut stream: S) -> Option<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        if self.manner.is_socks {
            let mut server = self.socks(&mut stream).await?;
            copy_bidirectional(&mut stream, &mut server).await.ok()?;
            return Some(());
        }
        let request = Request::read(&mut stream).await?;
        self.admit(&request, &mut stream).await?;
        if request.http_method != "CONNECT" {
            return self.forward(request, stream).await;
        }
        let mut server = connect(&request.path).await?;
        say(&mut stream, b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n").await?;
        copy_bidirectional(&mut stream, &mut server).await.ok()?;
        Some(())
    }

    fn note(&self, what: String) {
        self.log.lock().expect("no panic under the lock").asked.push(what);
    }

    /// `None` if the client is turned away, and has been told so.
    async fn admit(&self, request: &Request, stream: &mut (impl AsyncWrite + Unpin)) -> Option<()> {
        self.note(format!("{} {}", request.http_method, request.path));
        match (self.manner.plan)(self.number) {
            Fault::None => {}
            Fault::Status(status, body) => {
                let length = body.len();
                let head = format!("HTTP/1.1 {status} Text\r\nContent-Length: {length}\r\n\r\n");
                say(stream, format!("{head}{body}").as_bytes()).await?;
                return None;
            }
            Fault::Cut => {
                say(stream, b"HTTP/1.1 200 Conn").await?;
                return None;
            }
            Fault::Hang => std::future::pending().await,
            Fault::Garbage | Fault::Code(_) => {
                say(stream, b"220 mail.example ESMTP\r\n").await?;
                return None;
            }
        }
        let Some((user, password)) = self.manner.login else { return Some(()) };
        let expected = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        let given = request.header("proxy-authorization").unwrap_or_default();
        if given == expected {
            return Some(());
        }
        // Some repeat what they were told.
        let body = format!("not with {given}");
        let head = format!(
            "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: {}\r\n\
             Proxy-Authenticate: Basic realm=\"test\"\r\n\r\n",
            body.len()
        );
        say(stream, format!("{head}{body}").as_bytes()).await?;
        None
    }

    /// Passes requests on, with another first line, as long as there are any.
    async fn forward<S: AsyncRead + AsyncWrite>(&self, first: Request, stream: S) -> Option<()> {
        let place = first.path.strip_prefix("http://")?.split('/').next()?.to_owned();
        let (mut from_server, mut to_server) = connect(&place).await?.into_split();
        let (mut from_client, mut to_client) = tokio::io::split(stream);
        let down = copy(&mut from_server, &mut to_client);
        let mut next = Some(first);
        let up = async {
            while let Some(request) = next {
                let whole = format!("http://{place}");
                let path = request.path.strip_prefix(&whole).expect("the same server");
                let mut head = format!("{} {path} HTTP/1.1\r\n", request.http_method);
                for (name, value) in &request.headers {
                    if name != "proxy-authorization" {
                        head += &format!("{name}: {value}\r\n");
                    }
                }
                say(&mut to_server, format!("{head}\r\n").as_bytes()).await?;
                say(&mut to_server, &request.body).await?;
                next = Request::read(&mut from_client).await;
                if let Some(request) = &next {
                    self.note(format!("{} {}", request.http_method, request.path));
                }
            }
            Some(())
        };
        tokio::select! { _ = down => {}, _ = up => {} }
        Some(())
    }

    /// The server that a SOCKS client wants, unless it is turned away.
    async fn socks(&self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<TcpStream> {
        let fault = (self.manner.plan)(self.number);
        let [_version, count] = take(stream).await?;
        let mut offered = vec![0; usize::from(count)];
        stream.read_exact(&mut offered).await.ok()?;
        match fault {
            Fault::Hang => std::future::pending().await,
            Fault::Garbage => {
                return say(stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await.and(None);
            }
            Fault::Cut => return say(stream, &[5]).await.and(None),
            _ => {}
        }
        match self.manner.login {
            None => say(stream, &[5, 0]).await?,
            Some(_) if !offered.contains(&2) => return say(stream, &[5, 255]).await.and(None),
            Some(login) => {
                say(stream, &[5, 2]).await?;
                let [_version, length] = take(stream).await?;
                let user = text(stream, length).await?;
                let [length] = take(stream).await?;
                let password = text(stream, length).await?;
                let is_right = (&*user, &*password) == login;
                say(stream, &[1, u8::from(!is_right)]).await?;
                is_right.then_some(())?;
            }
        }
        let [_version, _command, _reserved, kind] = take(stream).await?;
        let host = match kind {
            1 => Ipv4Addr::from(take::<4>(stream).await?).to_string(),
            4 => format!("[{}]", Ipv6Addr::from(take::<16>(stream).await?)),
            _ => {
                let [length] = take(stream).await?;
                text(stream, length).await?
            }
        };
        let port = u16::from_be_bytes(take(stream).await?);
        self.note(format!("SOCKS {host}:{port}"));
        // It has no way to IPv6.
        let code = match fault {
            Fault::Code(code) => code,
            _ if kind == 4 => 4,
            _ => 0,
        };
        let server = connect(&format!("{host}:{port}")).await;
        say(stream, &[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
        server.filter(|_| code == 0)
    }
}

/// Always on this machine.
async fn connect(place: &str) -> Option<TcpStream> {
    let port = place.rsplit_once(':')?.1.parse::<u16>().ok()?;
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.ok()?;
    let _ = stream.set_nodelay(true);
    Some(stream)
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Option<()> {
    stream.write_all(bytes).await.ok()?;
    stream.flush().await.ok()
}

async fn take<const N: usize>(stream: &mut (impl AsyncRead + Unpin)) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

async fn text(stream: &mut (impl AsyncRead + Unpin), length: u8) -> Option<String> {
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await.ok()?;
    String::from_utf8(bytes).ok()
}
