//! The one thread on which the program does its work.

use std::io;
use std::pin::Pin;

use tokio::runtime::Builder;

use crate::limits;

/// Something to be done.
pub type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Does `work` to its end. What it has begun besides ends with it.
///
/// One thread: a bridge waits most of the time, and starts sooner this way. It is here, and takes
/// work behind a pointer, so that the loop of the runtime is compiled once, and with the engine: each
/// call goes around in it a dozen times.
///
/// # Errors
///
/// When the system has no means for it, or the work panics.
pub fn run(work: Work) -> io::Result<()> {
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().event_interval(limits::TURNS).build()?;
    // As a task: waking the future that the runtime blocks on costs a system call each time.
    let ended = runtime.block_on(runtime.spawn(work));
    // A thread that still waits for a terminal must not hold up the end.
    runtime.shutdown_background();
    Ok(ended?)
}
