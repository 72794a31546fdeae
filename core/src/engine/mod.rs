//! Every decision about a message on its way to an HTTP server: order, limits, cancellation, silence,
//! and what becomes of it when its session is lost. Pure: no sockets, no clock, no tasks.
//!
//! [`Dispatcher`] takes messages and the link's events, and gives back commands for the link and
//! what the bridge has to know.

mod dispatch;
mod entry;
mod events;
mod loss;
mod returned;
mod sent;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use dispatch::{Dispatcher, Limits};
pub(crate) use entry::silence_limit;
