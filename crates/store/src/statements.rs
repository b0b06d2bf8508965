//! Named statements from `.sql` files, cut out at compile time. In files, people read them as SQL,
//! with the reason beside each, and SQLite's beside PostgreSQL's under the same file name.

/// Makes a constant of each statement of each file, and `ALL` for the tests. The build fails for a
/// name that the file does not have, and for a statement that is not named here.
macro_rules! statements {
    ($($file:literal: $($name:ident)+;)+) => {
        $($(
            pub(super) const $name: &str = $crate::statements::statement(
                include_str!(concat!("sql/", $file, ".sql")),
                concat!("-- name: ", stringify!($name), "\n"),
            );
        )+)+

        $(const _: () = assert!(
            $crate::statements::count(include_str!(concat!("sql/", $file, ".sql")))
                == [$(stringify!($name)),+].len(),
            concat!($file, ".sql has a statement that is not named here"),
        );)+

        /// All statements, by name.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, &str)] = &[$($((stringify!($name), $name)),+),+];
    };
}
pub(crate) use statements;

/// The statement that `header` introduces: from behind its comment to its semicolon.
pub(crate) const fn statement(file: &'static str, header: &str) -> &'static str {
    let text = file.as_bytes();
    let mut start = find(text, header.as_bytes(), 0) + header.len();
    while text[start] == b'-' {
        start = find(text, b"\n", start) + 1;
    }
    let end = find(text, b";", start);
    file.split_at(end).0.split_at(start).1
}

/// How many statements the file has.
pub(crate) const fn count(file: &str) -> usize {
    let (text, mut count, mut at) = (file.as_bytes(), 0, 0);
    while at < text.len() {
        count += is_at(text, b"-- name: ", at) as usize;
        at += 1;
    }
    count
}

const fn find(text: &[u8], wanted: &[u8], mut at: usize) -> usize {
    while !is_at(text, wanted, at) {
        at += 1;
        assert!(at < text.len(), "the file has no statement of this name");
    }
    at
}

const fn is_at(text: &[u8], wanted: &[u8], at: usize) -> bool {
    let mut same = 0;
    while same < wanted.len() && at + same < text.len() && text[at + same] == wanted[same] {
        same += 1;
    }
    same == wanted.len()
}
