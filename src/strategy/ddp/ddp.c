/* ddp/ddp */
