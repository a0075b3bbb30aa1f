"""`indelible policy`: policies looked over, asked, replayed, put in force."""
