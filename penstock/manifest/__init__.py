"""Files of authors: tools, skills and handbooks."""
