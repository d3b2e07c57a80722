//! What tools keep for the length of a run.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Values that belong to one run, at most one of each type: empty when the run begins, gone when it is over. A tool that
/// keeps something here cannot carry it from one run into another, but for those that go on with its
/// [`Conversation`](crate::Conversation). Clones share the values.
#[derive(Clone, Default)]
pub struct RunState(Arc<Mutex<Values>>);

type Values = HashMap<TypeId, Arc<dyn Any + Send + Sync>>;

impl RunState {
    /// The run's value of this type. The first to ask gets a default one.
    pub fn get<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let found = self.values().get(&TypeId::of::<T>()).cloned();
        // Made without the lock: a default may ask for another value.
        let value = found.unwrap_or_else(|| {
            let new = Arc::new(T::default());
            Arc::clone(self.values().entry(TypeId::of::<T>()).or_insert(new))
        });
        value.downcast().unwrap_or_else(|_| unreachable!("each value is kept under its own type"))
    }

    /// No value is changed under this lock, so a panic leaves it as it was.
    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunState").field("values", &self.values().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Counter(Mutex<u64>);

    #[test]
    fn one_value_of_each_type_is_shared_by_clones() {
        let state = RunState::default();
        *state.clone().get::<Counter>().0.lock().expect("lock") += 1;
        assert_eq!(*state.get::<Counter>().0.lock().expect("lock"), 1);
        assert_eq!(*state.get::<Mutex<u64>>().lock().expect("lock"), 0);
        assert_eq!(*RunState::default().get::<Counter>().0.lock().expect("lock"), 0);
    }

    #[test]
    fn a_default_that_panics_takes_nothing_else_along() {
        struct Broken;
        impl Default for Broken {
            fn default() -> Self {
                panic!("on purpose")
            }
        }
        let state = RunState::default();
        let other = state.clone();
        assert!(std::thread::spawn(move || drop(other.get::<Broken>())).join().is_err());
        assert_eq!(*state.get::<Counter>().0.lock().expect("lock"), 0);
    }
}
