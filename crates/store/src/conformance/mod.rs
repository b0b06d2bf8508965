//! What every store has to keep.
