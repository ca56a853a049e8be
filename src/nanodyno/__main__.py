from nanodyno.cli.main import main

main()
