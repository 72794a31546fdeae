//! nginx in front of a server, with a configuration and a port of its own, until the test ends.

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::peers::Peers;
use crate::process::Process;
use crate::raw_client::bridge_command;
use crate::servers;

const START: Duration = Duration::from_secs(10);
const REACTION: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What clients meet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    Plain,
    Tls,
    TlsAndHttp2,
}

pub(crate) struct Nginx {
    peers: Peers,
    front: Front,
    port: u16,
    place: TempDir,
    /// `None` while it is stopped.
    process: Option<Process>,
}

/// A request, as the access log has it. It is written when the answer has ended.
#[derive(Debug)]
pub(crate) struct Access {
    pub(crate) protocol: String,
    pub(crate) connection: String,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) status: u16,
}

/// Runs the test once for each, side by side: they wait most of the time.
pub(crate) fn for_each(fronts: &[Front], test: impl Fn(Front) + Sync) {
    std::thread::scope(|scope| {
        for front in fronts {
            scope.spawn(|| test(*front));
        }
    });
}

/// A location that hands everything below `prefix` to the server at `origin`.
pub(crate) fn location(prefix: &str, origin: &str, directives: &str) -> String {
    format!("location {prefix} {{ proxy_pass {origin}; {directives} }}")
}

impl Nginx {
    /// `site` is what stands in the configuration's `server` block, beside listening.
    pub(crate) fn start(front: Front, site: &str) -> Self {
        let place = TempDir::new().expect("the machine has a temporary directory");
        let (peers, port) = (Peers::find(), servers::lasting_port());
        let mut nginx = Self { peers, front, port, place, process: None };
        nginx.write_certificates();
        nginx.write("nginx.conf", &nginx.configuration(site));
        nginx.start_again();
        nginx
    }

    fn configuration(&self, site: &str) -> String {
        let listen = self.listen();
        // Everything is in its own folder, which only we can read: as root it must stay root.
        format!(
            "daemon off; worker_processes 1; user root; pid nginx.pid;\n\
             error_log error.log notice;\n\
             events {{ worker_connections 512; }}\n\
             http {{\n\
             log_format seen '$server_protocol $connection $request_method $uri $status';\n\
             access_log access.log seen;\n\
             client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
             uwsgi_temp_path uwsgi; scgi_temp_path scgi;\n\
             proxy_http_version 1.1; proxy_set_header Connection '';\n\
             server {{ {listen}\n{site}\n}}\n\
             }}\n"
        )
    }

    fn listen(&self) -> String {
        let port = self.port;
        let certificate = "ssl_certificate server.pem; ssl_certificate_key server.key;";
        match self.front {
            Front::Plain => format!("listen 127.0.0.1:{port};"),
            Front::Tls => format!("listen 127.0.0.1:{port} ssl; {certificate}"),
            Front::TlsAndHttp2 if self.version() >= vec![1, 25, 1] => {
                format!("listen 127.0.0.1:{port} ssl; http2 on; {certificate}")
            }
            Front::TlsAndHttp2 => format!("listen 127.0.0.1:{port} ssl http2; {certificate}"),
        }
    }

    fn version(&self) -> Vec<u32> {
        let output = self.peers.nginx().arg("-v").output().expect("nginx runs");
        let text = String::from_utf8_lossy(&output.stderr);
        let version = text.split("nginx/").nth(1).and_then(|rest| rest.split_whitespace().next());
        let version = version.unwrap_or_else(|| panic!("nginx does not tell its version: {text}"));
        version.split('.').filter_map(|part| part.parse().ok()).collect()
    }

    /// Starts it after `stop`, at the same port.
    pub(crate) fn start_again(&mut self) {
        let nginx = self.command();
        let mut command = Command::new("sh");
        // It ends with the test, also if that is killed: then nobody holds our stdin any more.
        command.args(["-c", r#""$0" "$@" & read -r _; kill "$!""#]);
        command.arg(nginx.get_program()).args(nginx.get_args());
        let process = self.process.insert(Process::start(&mut command));
        let deadline = Instant::now() + START;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if Instant::now() > deadline {
                panic!("nginx does not start:\n{}\n{}", process.output(), self.errors());
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn command(&self) -> Command {
        let mut command = self.peers.nginx();
        command.arg("-p").arg(self.place.path()).args(["-c", "nginx.conf"]);
        command
    }

    /// Ends it as a crash does; connections to it are refused when this returns.
    pub(crate) fn stop(&mut self) {
        self.process = None;
    }

    /// Has a new worker take over; the old one finishes what it has begun.
    pub(crate) fn reload(&self) {
        let output = self.command().args(["-s", "reload"]).output().expect("nginx runs");
        assert!(output.status.success(), "{output:?}");
        wait_until(|| self.errors().contains("gracefully shutting down"), || self.errors());
    }

    /// The bridge to what is at this path, with trust in our own certificate authority.
    pub(crate) fn bridge_to(&self, path: &str) -> Command {
        let mut command = bridge_command();
        command.arg(self.url(path)).env("SSL_CERT_FILE", self.file("root.pem"));
        command
    }

    pub(crate) fn url(&self, path: &str) -> String {
        // The certificate is for this name.
        let scheme = if self.front == Front::Plain { "http" } else { "https" };
        format!("{scheme}://localhost:{}{path}", self.port)
    }

    /// A file for the configuration to name.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).expect("a temporary directory can be written to");
    }

    /// An authority of the test's own, and the server that it vouches for.
    fn write_certificates(&self) {
        let mut params = CertificateParams::new(Vec::new()).expect("no name is no bad name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key can be made");
        let root = params.self_signed(&key).expect("a key can sign");
        let issuer = Issuer::new(params, key);
        let server_key = KeyPair::generate().expect("a key can be made");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("it is a name");
        let server = params.signed_by(&server_key, &issuer).expect("a key can sign");
        self.write("root.pem", &root.pem());
        self.write("server.pem", &server.pem());
        self.write("server.key", &server_key.serialize_pem());
    }

    /// What was asked of it, as soon as there are `count` requests for which `fits` is true.
    pub(crate) fn accesses(&self, count: usize, fits: impl Fn(&Access) -> bool) -> Vec<Access> {
        let fitting = || self.log().into_iter().filter(&fits).collect::<Vec<_>>();
        wait_until(|| fitting().len() >= count, || format!("{:#?}", self.log()));
        fitting()
    }

    fn log(&self) -> Vec<Access> {
        let text = fs::read_to_string(self.file("access.log")).unwrap_or_default();
        text.lines().map(Access::of).collect()
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.file("error.log")).unwrap_or_default()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }
}

impl Access {
    fn of(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        let Ok([protocol, connection, method, path, status]) = <[String; 5]>::try_from(words)
        else {
            panic!("{line:?} is not what the log's format says");
        };
        let status = status.parse().expect("a status is a number");
        Self { protocol, connection, method, path, status }
    }
}

fn wait_until(is_so: impl Fn() -> bool, state: impl Fn() -> String) {
    let deadline = Instant::now() + REACTION;
    while !is_so() {
        assert!(Instant::now() < deadline, "what was waited for did not happen:\n{}", state());
        std::thread::sleep(LOOK_AGAIN);
    }
}
