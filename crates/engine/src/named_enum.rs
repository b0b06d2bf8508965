//! Enums whose variants have names that the contract fixes.

/// Declares an enum, the list of its variants, and their names, so that all three agree.
macro_rules! named_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[expect(missing_docs, reason = "the variants are the contract's own words")]
        pub enum $name {
            $($variant,)+
        }

        impl $name {
            /// All variants, in the contract's order.
            pub const ALL: [Self; [$($text),+].len()] = [$(Self::$variant),+];

            /// The contract's name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The variant that the contract calls `text`.
            pub fn from_name(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
