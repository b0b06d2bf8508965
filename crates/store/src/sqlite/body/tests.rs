//! Bodies come back as they went.
