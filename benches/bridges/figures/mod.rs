//! What the benchmark counts, judges and shows. Pure: nothing here measures, reads or prints.

pub(crate) mod date;
pub(crate) mod document;
pub(crate) mod failure;
pub(crate) mod figure;
pub(crate) mod limits;
pub(crate) mod markdown;
pub(crate) mod picture;
pub(crate) mod results;
pub(crate) mod samples;
pub(crate) mod sweep;
pub(crate) mod table;
pub(crate) mod unit;
pub(crate) mod who;
