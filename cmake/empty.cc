// Stands in for a module without sources.
