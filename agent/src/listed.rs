//! A list of messages that stays readable however many there are.

/// The first few messages, and how many more there were.
#[derive(Debug)]
pub(crate) struct Listed {
    items: Vec<String>,
    max: usize,
    more: usize,
}

impl Listed {
    pub(crate) fn new(max: usize) -> Self {
        Listed { items: Vec::new(), max, more: 0 }
    }

    /// Adds a message. One beyond the maximum is not even written: writing a million would take its time.
    pub(crate) fn push(&mut self, message: impl FnOnce() -> String) {
        if self.items.len() < self.max {
            self.items.push(message());
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn into_items(mut self) -> Vec<String> {
        if self.more > 0 {
            self.items.push(format!("and {} more", self.more));
        }
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_counted_and_not_written() {
        let mut listed = Listed::new(2);
        listed.push(|| "a".to_owned());
        listed.push(|| "b".to_owned());
        for _ in 0..3 {
            listed.push(|| unreachable!("not asked for"));
        }
        assert_eq!(listed.into_items(), ["a", "b", "and 3 more"]);
        assert!(Listed::new(0).into_items().is_empty());
    }
}
