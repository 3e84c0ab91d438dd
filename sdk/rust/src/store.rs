use std::io;
use std::sync::{Mutex, PoisonError};

/// Keeps the knowledge of an installation between starts: one text, which is replaced as a whole. All functions may fail or
/// hang: the client then continues in memory, and the problem of its state says so.
///
/// Before each save the client reads the store and uses what is newer there: a revocation list, a key set, a token. A store that
/// several processes share needs its own `update`: with the one given here, a process can overwrite what another one wrote
/// between `read` and `write`.
pub trait Store: Send + Sync {
    /// The text last written, or none.
    fn read(&self) -> io::Result<Option<String>>;

    /// Replaces the text; should be atomic.
    fn write(&self, text: &str) -> io::Result<()>;

    /// Replaces the text by `change(text)` atomically: under an exclusive lock, or by compare-and-swap, with another call of
    /// `change` for the new text after each failure. A lock must end with the process that holds it.
    fn update(&self, change: &mut dyn FnMut(Option<&str>) -> String) -> io::Result<()> {
        let mut found = self.read()?;
        for _ in 0..MAX_TRIES {
            let text = change(found.as_deref());
            self.write(&text)?;
            found = self.read()?;
            if found.as_ref() == Some(&text) {
                return Ok(());
            }
        }
        Err(io::Error::other("another process keeps replacing the content of the store"))
    }
}

const MAX_TRIES: u32 = 3;

/// A store in memory, which ends with the process: the default.
#[derive(Debug, Default)]
pub struct MemoryStore {
    text: Mutex<Option<String>>,
}

impl MemoryStore {
    /// A store with this content.
    pub fn new(text: Option<String>) -> Self {
        Self { text: Mutex::new(text) }
    }
}

impl Store for MemoryStore {
    fn read(&self) -> io::Result<Option<String>> {
        Ok(self.text.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn write(&self, text: &str) -> io::Result<()> {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_string());
        Ok(())
    }

    fn update(&self, change: &mut dyn FnMut(Option<&str>) -> String) -> io::Result<()> {
        let mut text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        *text = Some(change(text.as_deref()));
        Ok(())
    }
}
