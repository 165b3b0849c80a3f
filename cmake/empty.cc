// Stands in for a room without sources.
