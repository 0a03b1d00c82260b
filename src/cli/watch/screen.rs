//! The terminal while runs are watched.

use std::io::Error;

use crossterm::event::{Event, EventStream, KeyCode, KeyModifiers};
use ratatui::DefaultTerminal;
use tokio::sync::Notify;
use tokio_stream::StreamExt;

use super::super::terminal::print;
use super::frame;
use super::watched::Watched;

/// The terminal's other screen, and what it shows. Leaves the last frame on the usual screen when it is dropped.
pub struct Screen {
    terminal: DefaultTerminal,
    pub watched: Watched,
}

impl Screen {
    /// Opens the other screen. A panic leaves it before its message is printed.
    pub fn open(watched: Watched) -> Result<Self, Error> {
        let terminal = ratatui::try_init().inspect_err(|_| drop(ratatui::try_restore()))?;
        Ok(Self { terminal, watched })
    }

    pub fn draw(&mut self) -> Result<(), Error> {
        let watched = &self.watched;
        self.terminal.draw(|drawn| frame::draw(watched, drawn.area(), drawn.buffer_mut())).map(|_| ())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let width = self.terminal.size().map_or(80, |size| size.width);
        // A terminal that has gone needs no restoring.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
        print(&frame::text(&self.watched, width));
    }
}

/// Completes when a key asks for the end, or the terminal has gone. Notifies of a new size.
pub async fn quit(resized: &Notify) {
    let mut events = EventStream::new();
    while let Some(Ok(event)) = events.next().await {
        match event {
            Event::Key(key) if key.code == KeyCode::Char('q') => return,
            // The terminal makes no signal of it while keys are read one by one.
            Event::Key(key) if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) => {
                return;
            }
            Event::Resize(..) => resized.notify_one(),
            _ => {}
        }
    }
}
