//! The rules, from outside.

mod explained;
mod grid;
mod hostile;
mod properties;
mod rules;
mod situation;
