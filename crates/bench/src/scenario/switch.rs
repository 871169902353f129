//! Changes of the host that some rungs want and others do not.

use sidestep_sys::problem::{Problem, say};
use std::fmt;

/// A change of the host that can be made and taken back, any number of times, on the measuring thread.
pub trait Change: Send {
    /// Makes it, or takes it back.
    fn turn(&mut self, on: bool) -> Result<(), Problem>;
}

/// A change, and whether it is made now. Dropped, it is taken back.
pub(crate) struct Switch {
    change: Box<dyn Change>,
    is_on: bool,
}

impl Switch {
    /// Not made yet.
    pub(crate) fn new(change: Box<dyn Change>) -> Self {
        Self { change, is_on: false }
    }

    /// Does nothing where it stands as wanted.
    pub(crate) fn turn(&mut self, on: bool) -> Result<(), Problem> {
        if self.is_on == on {
            return Ok(());
        }
        // What failed half-way is taken back, too.
        self.is_on = true;
        self.change.turn(on)?;
        self.is_on = on;
        Ok(())
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Err(problem) = self.turn(false) {
            say(problem);
        }
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").field("is_on", &self.is_on).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    struct Lamp(Arc<Mutex<Vec<bool>>>, bool);

    impl Change for Lamp {
        fn turn(&mut self, on: bool) -> Result<(), Problem> {
            self.0.lock().expect("nobody panics").push(on);
            if self.1 && on { Err(Problem::failed("no light", "broken")) } else { Ok(()) }
        }
    }

    #[test]
    fn turned_once_and_back_at_the_end() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut switch = Switch::new(Box::new(Lamp(seen.clone(), false)));
        for on in [false, true, true, false, false, true] {
            switch.turn(on).expect("it works");
        }
        drop(switch);
        assert_eq!(*seen.lock().expect("nobody panics"), [true, false, true, false]);
    }

    #[test]
    fn what_failed_is_taken_back() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut switch = Switch::new(Box::new(Lamp(seen.clone(), true)));
        assert!(switch.turn(true).is_err());
        drop(switch);
        assert_eq!(*seen.lock().expect("nobody panics"), [true, false]);
    }
}
