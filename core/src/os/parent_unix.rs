//! Other Unix systems: an orphan is given another parent, which is looked for now and then.

use std::time::Duration;

use rustix::process::{Pid, getppid};

/// Soon enough that no orphan lives on for long, seldom enough to cost nothing.
const LOOK: Duration = Duration::from_secs(1);

/// Completes when the parent has ended; never if it is init, which adopts orphans.
pub(super) async fn gone() {
    let Some(parent) = getppid().filter(|parent| *parent != Pid::INIT) else {
        return std::future::pending().await;
    };
    while getppid() == Some(parent) {
        tokio::time::sleep(LOOK).await;
    }
}
