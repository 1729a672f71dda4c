"""The paper's experiments: one declarative spec each (`specs`), tuning and running, figures, tables and a report."""
