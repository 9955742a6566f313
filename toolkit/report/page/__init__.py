"""The report page: figures as inline SVG, sections of records, one self-contained HTML file."""
