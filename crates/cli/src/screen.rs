//! The terminal: one frame that is drawn over itself, and a cursor that is restored.

use crate::style::StyledLine;
use std::io::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

pub(crate) struct Screen {
    colours: bool,
    drawn_rows: usize,
    size: Size,
}

const HIDE_CURSOR: &str = "\x1b[?25l";
const SHOW_CURSOR: &str = "\x1b[?25h";
const CLEAR_ALL: &str = "\x1b[2J\x1b[H";
const CLEAR_REST_OF_LINE: &str = "\x1b[K";
const CLEAR_BELOW: &str = "\x1b[J";

impl Screen {
    pub(crate) fn open(colours: bool) -> io::Result<Self> {
        write!(io::stdout(), "{HIDE_CURSOR}")?;
        Ok(Screen { colours, drawn_rows: 0, size: size() })
    }

    pub(crate) fn draw(&mut self, lines: &[StyledLine]) -> io::Result<()> {
        let mut frame = self.move_to_start();
        for line in lines {
            let text = if self.colours { line.coloured() } else { line.text() };
            frame.push_str(&format!("{text}{CLEAR_REST_OF_LINE}\n"));
        }
        frame.push_str(CLEAR_BELOW);
        self.drawn_rows = lines.len();
        write_frame(&frame)
    }

    /// Replaces the frame with lines that stay.
    pub(crate) fn draw_last(&mut self, lines: &[StyledLine]) -> io::Result<()> {
        self.draw(lines)?;
        self.drawn_rows = 0;
        Ok(())
    }

    /// Removes the frame and shows the cursor again.
    pub(crate) fn close(mut self) -> io::Result<()> {
        let frame = format!("{}{CLEAR_BELOW}", self.move_to_start());
        self.drawn_rows = 0;
        write_frame(&frame)
    }

    /// Moves to the start of the last frame. A terminal whose width has changed has wrapped its
    /// lines anew, and then the start is unknown.
    fn move_to_start(&mut self) -> String {
        let size = size();
        if std::mem::replace(&mut self.size, size) != size {
            return CLEAR_ALL.into();
        }
        match self.drawn_rows {
            0 => String::new(),
            rows => format!("\x1b[{rows}A\r"),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        drop(write_frame(SHOW_CURSOR)); // a failure cannot be reported any more
    }
}

/// One write, so that the terminal never shows half of a frame.
fn write_frame(frame: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(frame.as_bytes())?;
    out.flush()
}

/// The current size of the terminal, or a default where it reports none.
pub(crate) fn size() -> Size {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or(Size { columns: 80, rows: 24 }, |size| Size {
        columns: size.ws_col.into(),
        rows: size.ws_row.into(),
    })
}
