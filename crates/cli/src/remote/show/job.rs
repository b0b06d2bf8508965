//! How the states of jobs look.

use super::Cell;
use crate::ink::Tone;

/// The colour of a state. A server that is newer than we are may know others.
pub(crate) fn status_tone(status: &str) -> Tone {
    match status {
        "Queued" => Tone::Idle,
        "Running" => Tone::Busy,
        "Completed" => Tone::Good,
        "Failed" => Tone::Bad,
        "Poisoned" => Tone::Poison,
        "Cancelled" => Tone::Waiting,
        _ => Tone::Plain,
    }
}

/// A state in its colour.
pub(crate) fn status_cell(status: &str) -> Cell {
    Cell::toned(status_tone(status), status)
}
